from kaio import In, Out, f32, i32


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    count: i32 = x[0]
    y[0] = count
