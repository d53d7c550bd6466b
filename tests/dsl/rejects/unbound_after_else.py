from kaio import Out, f32, i32


def kernel(y: Out[f32], n: i32):
    if n > 3:
        y[0] = 1
    else:
        z = 1
    y[0] = z
