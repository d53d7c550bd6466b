from kaio import In, f32


def make():
    count = 0

    def kernel(x: In[f32]):
        nonlocal count
        count = 1

    return kernel


kernel = make()
