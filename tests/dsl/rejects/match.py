from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    match x[0]:
        case 0:
            y[0] = 1
        case _:
            y[0] = 2
