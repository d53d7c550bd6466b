from kaio import D2, In, Out, f32, i32


def kernel(x: In[f32, D2], y: Out[f32, D2], i: i32, j: i32):
    y[i][j] = x[0, 1] + x[2][3]
