from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    for i in range(3):
        y[i] = 0
    else:
        y[0] = 1
