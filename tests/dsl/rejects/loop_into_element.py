from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    for y[0] in range(3):
        pass
