from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    k = 0
    while k < x.size:
        z = x[k]
        k += 1
    y[0] = z
