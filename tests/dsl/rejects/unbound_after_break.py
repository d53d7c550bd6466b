from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    while True:
        if x[0] > 0:
            break
        z = 1
        if x[1] > 0:
            break
    y[0] = z
