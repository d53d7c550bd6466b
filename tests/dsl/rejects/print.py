from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    print("x", *x)
    y[0] = "%d" % 3
    text = f"{x[0]}"
