# Python 3.12
from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]) -> None:
    type number = f32
    y[0] = x[0]
