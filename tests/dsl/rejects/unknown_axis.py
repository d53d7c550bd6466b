from kaio import In, Out, f32, thread_idx


def kernel(x: In[f32], y: Out[f32]):
    i = thread_idx.w
    y[i] = x[i]
