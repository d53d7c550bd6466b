from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    print("x", x[0])
