from kaio import In, f32


def kernel(x: In[f32]):
    x[0] += 1
