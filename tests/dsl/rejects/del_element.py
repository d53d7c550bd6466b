from kaio import In, InOut, f32


def kernel(x: In[f32], y: InOut[f32]) -> None:
    del y[0]
