from kaio import Const, In, Out


def kernel(x: In, y: Out, n: Const):
    pass
