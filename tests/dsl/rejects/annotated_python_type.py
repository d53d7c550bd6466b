from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    total: float = 0
    rest: f32
    y[0] = total
