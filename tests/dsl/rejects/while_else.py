from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    i = 0
    while i < 3:
        i += 1
    else:
        y[0] = 1
