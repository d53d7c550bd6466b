from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]):
    y[0] = cuda.threadIdx.x
    cuda.syncthreads()
    cuda.atomic.add(y, 0, 1)
