from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]) -> None:
    y[0] = wibble(x[0])
