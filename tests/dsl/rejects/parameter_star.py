from kaio import In, Out, f32


def kernel(x: In[f32], *args, **options):
    pass
