from kaio import In, f32


def kernel(größe: In[f32]):
	if größe.size > 0:
		assert größe[0] > 0, "日本"; größe.szie = 3
