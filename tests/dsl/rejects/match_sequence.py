from kaio import In, Out, f32, i32


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    match n:
        case [1, *rest]:
            y[0] = 1
        case (a, b):
            y[0] = a + b
