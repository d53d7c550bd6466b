"""kaio: typed GPU kernels in Python, compiled to PTX and run natively on the CPU.

Kernels
    kernel, Kernel          `@kaio.kernel` makes a function a kernel; launch it: `k.over(y.size).launch(x, y, 2.0)`
    func, Func              `@kaio.func` marks a function that kernels call and that also runs as Python

Parameters of a kernel
    In, Out, InOut          a buffer that is read, written, or both: `x: In[f32]`, `image: Out[u8, D2]`
    D0, D1, D2, D3, D4      how many dimensions it has; one where nothing is said
    Strided                 any strides, where a buffer is C-contiguous otherwise: `x: In[f32, D2, Strided]`
    Const                   a compile-time constant: `tile: Const[int]`
    bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128
                            element types, which also annotate scalars and cast: `i32(x[i])`
    f16x2, f16x4, f16x8, bf16x2, bf16x4, bf16x8, f32x2, f32x4, f64x2, i8x4, i8x8, i8x16, i16x2, i16x4, i16x8, i32x2,
    i32x4, i64x2, u8x4, u8x8, u8x16, u16x2, u16x4, u16x8, u32x2, u32x4, u64x2
                            packed vectors: 2 to 16 lanes in one access of 4, 8 or 16 bytes
    f8e4m3, f8e5m2          element types that are loaded, stored and cast, and not computed with
    DType                   the class of these types: `Const[DType]`

In a kernel (Python's abs, min, max, round, len, range, int, float, bool and `math` are there too)
    grid                    this thread's place in the grid: `i = grid(1)`, `col, row = grid(2)`
    thread_idx, block_idx, block_dim, grid_dim
                            places and sizes, each with .x, .y and .z
    shared_mem, local_mem   arrays of a block and of a thread, of a shape known when compiling
    const_mem               an array of literals in constant memory, as NumPy arrays from outside are
    dynamic_shared          an array of a block whose size a launch says: `k.over(n).shared(tile=256)`
    bitcast                 the bits of a number as one of another type
    load, store             an element with a hint to the caches, or volatile
    cp_async, cp_async_commit, cp_async_wait
                            copies into shared memory that go on meanwhile
    unrolled                writes a loop out: `for k in unrolled(range(4)):`
    fence                   orders what a thread writes, as the block, the device or the system sees it
    bar_sync, syncwarp      wait for all threads of the block, of the warp
    bar_sync_count, bar_sync_and, bar_sync_or
                            wait for all threads of the block and tell for how many, all, any a bool is true
    named_bar_sync, named_bar_arrive
                            wait for some warps of the block; come to such a barrier without waiting
    grid_sync               waits for all threads of the grid
    cluster_sync, cluster_rank, cluster_size, cluster_shared
                            wait for the blocks of a cluster, which this one is, how many, their shared memory
    lane_id, warp_id        this thread's place in its warp, and its warp's in the block
    shfl_sync_idx, shfl_sync_up, shfl_sync_down, shfl_sync_bfly
                            read a value of another lane of the warp
    atomic_add, atomic_sub, atomic_min, atomic_max, atomic_and, atomic_or, atomic_xor, atomic_exch, atomic_cas,
    atomic_inc, atomic_dec  update an element in one step and give the value from before
    vote_all, vote_any, vote_uni, ballot, match_any, match_all
                            what is true, and which values are the same, in the lanes of the warp
    activemask, lanemask_lt, lanemask_le, lanemask_eq, lanemask_ge, lanemask_gt
                            the lanes that are here, and those before or behind this one
    clock, globaltimer, nanosleep
                            cycles, the time, a pause
    block_reduce_sum, block_reduce_prod, block_reduce_min, block_reduce_max, block_reduce_argmin,
    block_reduce_argmax, block_reduce_and, block_reduce_or, block_reduce_xor, block_reduce
                            one result of the values of all threads of the block
    block_scan_sum, block_scan_prod, block_scan_min, block_scan_max, block_scan_and, block_scan_or, block_scan_xor,
    block_scan, block_broadcast
                            of those up to each thread; of one of them
    warp_reduce_sum, warp_reduce_prod, warp_reduce_min, warp_reduce_max, warp_reduce_argmin, warp_reduce_argmax,
    warp_reduce_and, warp_reduce_or, warp_reduce_xor, warp_reduce
                            one result of the values of all lanes of the warp
    warp_scan_sum, warp_scan_prod, warp_scan_min, warp_scan_max, warp_scan_and, warp_scan_or, warp_scan_xor,
    warp_scan, warp_broadcast
                            of those up to each lane; of one of them
    mma, matrix_a, matrix_b, matrix_c, matrix_zeros, load_matrix_a, load_matrix_b, load_matrix_c, store_matrix,
    ldmatrix_a, ldmatrix_b, stmatrix_c, ldmatrix, stmatrix
                            products of matrices that a warp holds, by its matrix unit
    philox, random_u32, random_uniform, random_normal, random_uniform4, random_normal4
                            random numbers of a seed and a counter
    ptx, InlinePtx          an instruction of PTX as a function that kernels call
    clamp, fdim, maximum, minimum, saturate, sign, signbit
                            choose between numbers
    fma, rint, ilogb, logb  round once, to whole numbers; exponents
    cospi, exp10, rcbrt, rcp, rsqrt, sincos, sincospi, sinpi, norm3d, norm4d, rhypot, rnorm3d, rnorm4d
                            functions that `math` does not have
    cyl_bessel_i0, cyl_bessel_i1, erfcinv, erfcx, erfinv, j0, j1, jn, normcdf, normcdfinv, y0, y1, yn
                            special functions
    fast_cos, fast_div, fast_exp, fast_exp2, fast_exp10, fast_log, fast_log2, fast_log10, fast_pow, fast_rcp,
    fast_rsqrt, fast_sin, fast_sqrt, fast_tan, fast_tanh
                            approximate functions of f32, a few instructions each
    add_rn, sub_rn, mul_rn, div_rn, fma_rn, rcp_rn, sqrt_rn
                            rounded to the nearest, and
    add_rz, sub_rz, mul_rz, div_rz, fma_rz, rcp_rz, sqrt_rz
    add_ru, sub_ru, mul_ru, div_ru, fma_ru, rcp_ru, sqrt_ru
    add_rd, sub_rd, mul_rd, div_rd, fma_rd, rcp_rd, sqrt_rd
                            towards zero, up and down
    brev, byte_perm, clz, ffs, popc, funnelshift_l, funnelshift_lc, funnelshift_r, funnelshift_rc
                            the bits of integers
    hadd, mul24, mulhi, rhadd, sad, dp2a_hi, dp2a_lo, dp4a
                            arithmetic of integers

Running
    Device, devices         a GPU or the CPU, and all there are: memory, streams, waiting
    GpuBuffer               memory of a device; `to_host()` copies it into a NumPy array
    Stream                  work in order; made by `device.stream()`
    Graph                   work recorded once, to be launched as one; made by `device.graph()`
    Completion              one piece of work: `await` it, or `wait()`
    gather, as_completed    several of them
    run                     work of another library on kaio's streams
    trace                   what one thread does, line by line; `k.over(n).trace(x, y, thread=3)` does the same

Errors all derive from KaioError and say what is wrong, where, and the way out:
    KernelSyntaxError, KernelTypeError, CompileError
                            the kernel's source; its types; what cannot be compiled for the target
    LaunchError             a wrong argument or geometry; nothing was launched
    KernelFault             a kernel failed while it ran: a wrong index, an assertion
    BufferClosedError, StaleBufferError, OutOfMemoryError
                            memory
    DeviceNotFoundError, ContextPoisonedError, CompletionTimeout, UnsupportedFeatureError, LibraryError, InternalError
                            devices, waiting, what is not there, other libraries, kaio itself
    PrecisionWarning        digits that an f64 has are already lost
"""

from kaio.dsl.access import load, store
from kaio.dsl.async_copy import cp_async, cp_async_commit, cp_async_wait
from kaio.dsl.atomic import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_dec,
    atomic_exch,
    atomic_inc,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_sub,
    atomic_xor,
)
from kaio.dsl.bitcasts import bitcast
from kaio.dsl.blocks import cluster_rank, cluster_shared, cluster_size, cluster_sync, grid_sync
from kaio.dsl.clocks import clock, globaltimer, nanosleep
from kaio.dsl.collective.records import (
    block_broadcast,
    block_reduce,
    block_reduce_and,
    block_reduce_argmax,
    block_reduce_argmin,
    block_reduce_max,
    block_reduce_min,
    block_reduce_or,
    block_reduce_prod,
    block_reduce_sum,
    block_reduce_xor,
    block_scan,
    block_scan_and,
    block_scan_max,
    block_scan_min,
    block_scan_or,
    block_scan_prod,
    block_scan_sum,
    block_scan_xor,
    warp_broadcast,
    warp_reduce,
    warp_reduce_and,
    warp_reduce_argmax,
    warp_reduce_argmin,
    warp_reduce_max,
    warp_reduce_min,
    warp_reduce_or,
    warp_reduce_prod,
    warp_reduce_sum,
    warp_reduce_xor,
    warp_scan,
    warp_scan_and,
    warp_scan_max,
    warp_scan_min,
    warp_scan_or,
    warp_scan_prod,
    warp_scan_sum,
    warp_scan_xor,
)
from kaio.dsl.fences import fence
from kaio.dsl.function import Func, func
from kaio.dsl.index import block_dim, block_idx, grid, grid_dim, thread_idx
from kaio.dsl.matrix import matrix_a, matrix_b, matrix_c, matrix_zeros, mma
from kaio.dsl.matrix_moves import (
    ldmatrix,
    ldmatrix_a,
    ldmatrix_b,
    load_matrix_a,
    load_matrix_b,
    load_matrix_c,
    stmatrix,
    stmatrix_c,
    store_matrix,
)
from kaio.dsl.memory import const_mem, dynamic_shared, local_mem, shared_mem
from kaio.dsl.numeric.bits import (
    brev,
    byte_perm,
    clz,
    ffs,
    funnelshift_l,
    funnelshift_lc,
    funnelshift_r,
    funnelshift_rc,
    popc,
)
from kaio.dsl.numeric.classes import signbit
from kaio.dsl.numeric.directed import (
    add_rd,
    add_rn,
    add_ru,
    add_rz,
    div_rd,
    div_rn,
    div_ru,
    div_rz,
    fma_rd,
    fma_rn,
    fma_ru,
    fma_rz,
    mul_rd,
    mul_rn,
    mul_ru,
    mul_rz,
    rcp_rd,
    rcp_rn,
    rcp_ru,
    rcp_rz,
    sqrt_rd,
    sqrt_rn,
    sqrt_ru,
    sqrt_rz,
    sub_rd,
    sub_rn,
    sub_ru,
    sub_rz,
)
from kaio.dsl.numeric.dots import dp2a_hi, dp2a_lo, dp4a
from kaio.dsl.numeric.elementary import cospi, exp10, rcbrt, rcp, rsqrt, sincos, sincospi, sinpi
from kaio.dsl.numeric.fast import (
    fast_cos,
    fast_div,
    fast_exp,
    fast_exp2,
    fast_exp10,
    fast_log,
    fast_log2,
    fast_log10,
    fast_pow,
    fast_rcp,
    fast_rsqrt,
    fast_sin,
    fast_sqrt,
    fast_tan,
    fast_tanh,
)
from kaio.dsl.numeric.integers import hadd, mul24, mulhi, rhadd, sad
from kaio.dsl.numeric.norms import norm3d, norm4d, rhypot, rnorm3d, rnorm4d
from kaio.dsl.numeric.parts import ilogb, logb
from kaio.dsl.numeric.rounding import fma, rint
from kaio.dsl.numeric.selection import clamp, fdim, maximum, minimum, saturate, sign
from kaio.dsl.numeric.special import (
    cyl_bessel_i0,
    cyl_bessel_i1,
    erfcinv,
    erfcx,
    erfinv,
    j0,
    j1,
    jn,
    normcdf,
    normcdfinv,
    y0,
    y1,
    yn,
)
from kaio.dsl.ptx import InlinePtx, ptx
from kaio.dsl.random import philox, random_normal, random_normal4, random_u32, random_uniform, random_uniform4
from kaio.dsl.sync import bar_sync, bar_sync_and, bar_sync_count, bar_sync_or, named_bar_arrive, named_bar_sync
from kaio.dsl.types import D0, D1, D2, D3, D4, Const, In, InOut, Out, Strided
from kaio.dsl.unrolling import unrolled
from kaio.dsl.vote import (
    activemask,
    ballot,
    lanemask_eq,
    lanemask_ge,
    lanemask_gt,
    lanemask_le,
    lanemask_lt,
    match_all,
    match_any,
    vote_all,
    vote_any,
    vote_uni,
)
from kaio.dsl.warp import (
    lane_id,
    shfl_sync_bfly,
    shfl_sync_down,
    shfl_sync_idx,
    shfl_sync_up,
    syncwarp,
    warp_id,
)
from kaio.dtypes import (
    DType,
    bf16,
    bool_,
    c64,
    c128,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from kaio.errors import (
    BufferClosedError,
    CompileError,
    CompletionTimeout,
    ContextPoisonedError,
    DeviceNotFoundError,
    InternalError,
    KaioError,
    KernelFault,
    KernelSyntaxError,
    KernelTypeError,
    LaunchError,
    LibraryError,
    OutOfMemoryError,
    PrecisionWarning,
    StaleBufferError,
    UnsupportedFeatureError,
)
from kaio.kernel import Kernel, kernel
from kaio.launch.tracing import trace
from kaio.runtime import Completion, Device, GpuBuffer, Graph, Stream, as_completed, devices, gather, run
from kaio.vectors import (
    bf16x2,
    bf16x4,
    bf16x8,
    f16x2,
    f16x4,
    f16x8,
    f32x2,
    f32x4,
    f64x2,
    i8x4,
    i8x8,
    i8x16,
    i16x2,
    i16x4,
    i16x8,
    i32x2,
    i32x4,
    i64x2,
    u8x4,
    u8x8,
    u8x16,
    u16x2,
    u16x4,
    u16x8,
    u32x2,
    u32x4,
    u64x2,
)  # fmt: skip

__all__ = [  # noqa: RUF022 - grouped by meaning
    "D0", "D1", "D2", "D3", "D4", "Const", "DType", "In", "InOut", "Out", "Strided",
    "bool_", "bf16", "c64", "c128", "f8e4m3", "f8e5m2", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16",
    "u32", "u64",
    "f16x2", "f16x4", "f16x8", "bf16x2", "bf16x4", "bf16x8", "f32x2", "f32x4", "f64x2", "i8x4", "i8x8", "i8x16",
    "i16x2", "i16x4", "i16x8", "i32x2", "i32x4", "i64x2", "u8x4", "u8x8", "u8x16", "u16x2", "u16x4", "u16x8",
    "u32x2", "u32x4", "u64x2",
    "Func", "Kernel", "func", "kernel",
    "block_dim", "block_idx", "grid", "grid_dim", "thread_idx",
    "atomic_add", "atomic_and", "atomic_cas", "atomic_dec", "atomic_exch", "atomic_inc", "atomic_max", "atomic_min",
    "atomic_or", "atomic_sub", "atomic_xor",
    "ldmatrix", "ldmatrix_a", "ldmatrix_b", "load_matrix_a", "load_matrix_b", "load_matrix_c", "matrix_a", "matrix_b",
    "matrix_c", "matrix_zeros", "mma", "stmatrix", "stmatrix_c", "store_matrix",
    "bitcast", "const_mem", "cp_async", "cp_async_commit", "cp_async_wait", "dynamic_shared", "fence", "load",
    "local_mem", "shared_mem", "store", "unrolled",
    "bar_sync", "bar_sync_and", "bar_sync_count", "bar_sync_or", "named_bar_arrive", "named_bar_sync",
    "clock", "globaltimer", "nanosleep",
    "cluster_rank", "cluster_shared", "cluster_size", "cluster_sync", "grid_sync",
    "InlinePtx", "ptx",
    "block_broadcast", "block_reduce", "block_reduce_and", "block_reduce_argmax", "block_reduce_argmin",
    "block_reduce_max", "block_reduce_min", "block_reduce_or", "block_reduce_prod", "block_reduce_sum",
    "block_reduce_xor", "block_scan", "block_scan_and", "block_scan_max", "block_scan_min", "block_scan_or",
    "block_scan_prod", "block_scan_sum", "block_scan_xor", "warp_broadcast", "warp_reduce", "warp_reduce_and",
    "warp_reduce_argmax", "warp_reduce_argmin", "warp_reduce_max", "warp_reduce_min", "warp_reduce_or",
    "warp_reduce_prod", "warp_reduce_sum", "warp_reduce_xor", "warp_scan", "warp_scan_and", "warp_scan_max",
    "warp_scan_min", "warp_scan_or", "warp_scan_prod", "warp_scan_sum", "warp_scan_xor",
    "philox", "random_normal", "random_normal4", "random_u32", "random_uniform", "random_uniform4",
    "brev", "byte_perm", "clz", "ffs", "funnelshift_l", "funnelshift_lc", "funnelshift_r", "funnelshift_rc", "popc",
    "signbit",
    "add_rd", "add_rn", "add_ru", "add_rz", "div_rd", "div_rn", "div_ru", "div_rz", "fma_rd", "fma_rn", "fma_ru",
    "fma_rz", "mul_rd", "mul_rn", "mul_ru", "mul_rz", "rcp_rd", "rcp_rn", "rcp_ru", "rcp_rz", "sqrt_rd", "sqrt_rn",
    "sqrt_ru", "sqrt_rz", "sub_rd", "sub_rn", "sub_ru", "sub_rz",
    "dp2a_hi", "dp2a_lo", "dp4a",
    "cospi", "exp10", "rcbrt", "rcp", "rsqrt", "sincos", "sincospi", "sinpi",
    "fast_cos", "fast_div", "fast_exp", "fast_exp10", "fast_exp2", "fast_log", "fast_log10", "fast_log2", "fast_pow",
    "fast_rcp", "fast_rsqrt", "fast_sin", "fast_sqrt", "fast_tan", "fast_tanh",
    "hadd", "mul24", "mulhi", "rhadd", "sad",
    "norm3d", "norm4d", "rhypot", "rnorm3d", "rnorm4d",
    "ilogb", "logb",
    "fma", "rint",
    "clamp", "fdim", "maximum", "minimum", "saturate", "sign",
    "cyl_bessel_i0", "cyl_bessel_i1", "erfcinv", "erfcx", "erfinv", "j0", "j1", "jn", "normcdf", "normcdfinv", "y0",
    "y1", "yn",
    "activemask", "ballot", "lane_id", "lanemask_eq", "lanemask_ge", "lanemask_gt", "lanemask_le", "lanemask_lt",
    "match_all", "match_any", "shfl_sync_bfly", "shfl_sync_down", "shfl_sync_idx", "shfl_sync_up", "syncwarp",
    "vote_all", "vote_any", "vote_uni", "warp_id",
    "Completion", "Device", "GpuBuffer", "Graph", "Stream", "as_completed", "devices", "gather", "run", "trace",
    "BufferClosedError", "CompileError", "CompletionTimeout", "ContextPoisonedError", "DeviceNotFoundError",
    "InternalError", "KaioError", "KernelFault", "KernelSyntaxError", "KernelTypeError", "LaunchError", "LibraryError",
    "OutOfMemoryError", "PrecisionWarning", "StaleBufferError", "UnsupportedFeatureError",
]  # fmt: skip

__version__ = "0.1.0"


def __dir__() -> list[str]:
    # Not the modules, which are loaded on the way.
    return [*__all__, "__doc__", "__file__", "__name__", "__path__", "__spec__", "__version__"]
