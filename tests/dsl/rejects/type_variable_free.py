from typing import TypeVar

from kaio import In, f32

T = TypeVar("T")
U = TypeVar("U", f32, float)


def kernel(x: In[T], a: U):
    pass
