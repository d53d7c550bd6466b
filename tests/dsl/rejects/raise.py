from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    if x[0] < 0:
        raise ValueError("negative")
