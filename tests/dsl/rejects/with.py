from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    with x as z:
        y[0] = z[0]
