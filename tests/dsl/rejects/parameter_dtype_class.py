from kaio import DType


def kernel(dtype: DType):
    pass
