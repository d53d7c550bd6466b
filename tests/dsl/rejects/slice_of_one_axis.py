from kaio import D2, In, Out, f32


def kernel(x: In[f32, D2], y: Out[f32]) -> None:
    row = x[0, :]
    y[0] = row[0]
