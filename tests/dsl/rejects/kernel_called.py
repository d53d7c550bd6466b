import kaio

from kaio import In, Out, f32, i32

@kaio.kernel
def other(x: In[f32]) -> None:
    pass


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    other(x)
