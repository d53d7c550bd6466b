from kaio import D2, Out, atomic_add, f32


def kernel(y: Out[f32, D2]):
    atomic_add(y, 0, 1.0)
