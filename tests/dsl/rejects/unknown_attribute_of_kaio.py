import kaio
from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    i = kaio.gird(1)
    y[i] = x[i]
