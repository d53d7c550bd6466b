from kaio import In, f32


async def kernel(x: In[f32]):
    await x
