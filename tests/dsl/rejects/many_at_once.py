from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    total = [0.0]
    for i, v in enumerate(x):
        raise ValueError("no")
    y[0] = y[1] + toatl
    x[0] = 1
    return 3
