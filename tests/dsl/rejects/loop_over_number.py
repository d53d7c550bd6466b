from kaio import In, Out, f32, i32


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    for k in n:
        y[k] = x[k]
