from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]) -> None:
    from math import sqrt

    y[0] = sqrt(x[0])
