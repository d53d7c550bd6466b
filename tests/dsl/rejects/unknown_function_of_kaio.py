import kaio
from kaio import InOut, f32, i32


def kernel(x: InOut[f32], n: InOut[i32]):
    x[0] = kaio.sqrt(x[0]) + kaio.arcsin(x[1])
    x[1] = kaio.abs(x[1])
    kaio.atomic_mul(n, 0, 1)
    kaio.print(x[0])
