from kaio import InOut, f32


def kernel(x: InOut[f32]):
    x[0] = WIDTH
