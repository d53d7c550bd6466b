from kaio import In, Out, f32, i32

def lerp(a, b, weight=0.5):
    return a + (b - a) * weight


def kernel(x: In[f32], y: Out[f32], n: i32) -> None:
    y[0] = lerp(x[0], x[1], wieght=0.5)
