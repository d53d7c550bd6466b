import kaio
from kaio import Out, f32


def kernel(y: Out[f32]):
    y[1] = 1.0 if kaio.load(y, 0, cache="cg") > 0 else 2.0
