from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    z = x[0]
    y[0] = z
    del z
