"""What a type checker finds before kaio is asked: each marked line has the mistake that it names."""

import kaio
from kaio import Const, In, InOut, f32


@kaio.kernel
def writes_an_input(x: In[f32], y: InOut[f32]) -> None:
    x[0] = y[0]  # Unsupported target for indexed assignment


@kaio.kernel
def misspells_an_attribute(x: In[f32], n: Const[int]) -> None:
    i = kaio.grid(1)
    i += x.szie  # has no attribute "szie"
    i += n.size  # "int" has no attribute "size"
    i += x["a"]  # Invalid index type


@kaio.kernel
def misspells_a_function(y: InOut[f32]) -> None:
    y[kaio.gird(1)] = 0  # has no attribute "gird"
