from kaio import In, Out, f32


def kernel(x: In[f32], y: Out[f32]) -> None:
    async def later(v):
        return v

    y[0] = x[0]
