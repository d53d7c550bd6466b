from kaio import In, Out, f32, i32

def f(k):
    return k * g(k - 1)


def g(k):
    return f(k)


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    y[0] = f(n)
