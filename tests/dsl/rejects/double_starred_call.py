from kaio import In, Out, f32

OPTIONS = {}


def kernel(x: In[f32], y: Out[f32]):
    y[0] = round(x[0], **OPTIONS)
