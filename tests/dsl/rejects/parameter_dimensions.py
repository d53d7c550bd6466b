from kaio import D1, D2, In, Out, f32


def kernel(x: In[f32, 2], y: Out[f32, int], z: In[f32, D1, D2], w: In[D2, f32], v: In[f32, True]):
    pass
