from kaio import In, Out, f32, i32


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    v = x[0]
    if n > 3:
        v = n
    y[0] = v
