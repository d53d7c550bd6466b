from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    total: bool = 0.5
    y[0] = total
