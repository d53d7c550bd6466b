from kaio import In, Out, f32, i32


def kernel(x: In[f32], y: Out[i32]) -> None:
    y[0] = x[0]
