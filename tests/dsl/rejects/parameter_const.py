from kaio import Const, i32


def kernel(n: Const[i32], m: Const[str]):
    pass
