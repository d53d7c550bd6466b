from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    assert x[0] > 0, f"negative: {x[0]}"
    y[0] = x[0]
