from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    if (v := x[0]) > 0:
        y[0] = v
