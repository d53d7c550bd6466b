from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    def double(v):
        return 2 * v

    y[0] = double(x[0])
