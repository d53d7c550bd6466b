import kaio
from kaio import InOut, f32


def kernel(x: InOut[f32]):
    v = kaio.make_float4(0, 0, 0, 0)
    kaio.atomicAdd(x, 0, v.x)
    cuda.atomic.compare_and_swap(x, 0, 1)
    cuda.atomic.nanmax(x, 0, 1)
    for i in range(kaio.grid(1), x.size, cuda.gridsize(1)):
        x[i] = cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1)
    x[0] = float4(warpSize).x
    kaio.sync_threads()
    kaio.program_id(0)
    kaio.num_programs(0)
