from kaio import In, Out, bar_sync, f32


def kernel(x: In[f32], y: Out[f32]):
    y[0] = x[0]
    bar_sync
