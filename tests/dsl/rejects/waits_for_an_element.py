import kaio
from kaio import InOut, i32


def kernel(flags: InOut[i32], n: i32) -> None:
    ready = kaio.shared_mem((2, 2), i32)
    while flags[0] < n:
        pass
    while True:
        if ready[0, n] == 1:
            break
        kaio.nanosleep(20)
    while i32(kaio.load(flags, 1)) != max(n, 3):
        continue
    while kaio.load(flags, 2, cache="cg", volatile=False) == 0:
        pass
    while kaio.load(flags, 3, cache="cv") == 0:
        pass
