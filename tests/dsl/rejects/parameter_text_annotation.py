from kaio import In, f32


def kernel(x: 'In[f23]', y: 'Out[f32]'):
    pass
