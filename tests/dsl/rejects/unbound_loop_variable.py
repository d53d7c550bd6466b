from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    for k in range(x.size):
        pass
    y[0] = k
