from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    import math

    y[0] = math.sin(x[0])
