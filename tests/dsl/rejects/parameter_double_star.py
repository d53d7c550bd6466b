from kaio import In, f32


def kernel(x: In[f32], **options: f32) -> None:
    pass
