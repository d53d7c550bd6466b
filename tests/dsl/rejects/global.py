from kaio import In, Out, f32

count = 0


def kernel(x: In[f32], y: Out[f32]):
    global count
    count = 1
