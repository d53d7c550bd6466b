import types

from kaio import In, Out, f32

cupy = types.ModuleType('cupy')
cupy.sqrt = print


def kernel(x: In[f32], y: Out[f32]):
    y[0] = cupy.sqrt(x[0])
