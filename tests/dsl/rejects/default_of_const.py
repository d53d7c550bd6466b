from kaio import Const, DType


def kernel(n: Const[int] = True, b: Const[bool] = 1, f: Const[float] = None, t: Const[DType] = 3):
    pass
