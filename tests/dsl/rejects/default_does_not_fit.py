from kaio import bool_, f32, i8, i32, u8


def kernel(a: i8 = 300, b: u8 = -1, c: f32 = 1e300, d: i32 = 0.5, e: f32 = "1", f: bool_ = 2, g: i32 = None):
    pass
