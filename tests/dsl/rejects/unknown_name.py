from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    total = 0.0
    y[0] = totl + x[0]
