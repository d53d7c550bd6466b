from kaio import In, Out, f32, f32x4


def kernel(x: In[f32], y: Out[f32]) -> None:
    y[0] = x.view(f32x4)[0].w
