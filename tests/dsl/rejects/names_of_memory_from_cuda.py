import kaio
from kaio import InOut, f32


def kernel(x: InOut[f32]):
    kaio.threadfence_block()
    for k in kaio.static_range(4):
        x[k] = kaio.ldg(x, k)
