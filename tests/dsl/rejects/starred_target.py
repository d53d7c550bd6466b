from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    first, *rest = (1, 2, 3)
    y[0] = first
