from typing import TypeVar

from kaio import In, f32, f64

T = TypeVar("T", f32, f64)
U = TypeVar("T", f32, f64)


def kernel(x: In[T], a: U):
    pass
