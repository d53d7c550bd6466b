from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    x[0] + 1
    y[0] = 2
