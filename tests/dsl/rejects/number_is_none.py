from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]) -> None:
    v = x[0]
    if v is not None:
        y[0] = v
