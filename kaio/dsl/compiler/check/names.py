"""Names and attributes that do not exist, and what was probably meant."""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from kaio.dsl.compiler.advice import NOT_NUMPY, instead_of_function
from kaio.dsl.compiler.check.scope import UNKNOWN, Scope
from kaio.dsl.intrinsic import Namespace
from kaio.errors import Mistake

__all__ = ["check_names"]

_BUILTINS = ("range", "min", "max", "abs", "int", "float", "bool", "complex", "len", "round", "print", "breakpoint")
_BUFFER_ATTRIBUTES = ("size", "shape", "strides", "ndim", "dtype")
_AXES = ("x", "y", "z")

_OTHER_LIBRARIES = ("cupy", "jax", "numba", "taichi", "tensorflow", "torch", "triton", "warp")

_FROM_CUDA = {
    "threadIdx": "thread_idx",
    "blockIdx": "block_idx",
    "blockDim": "block_dim",
    "gridDim": "grid_dim",
    "syncthreads": "bar_sync",
    "__syncthreads": "bar_sync",
    "syncthreads_count": "bar_sync_count",
    "syncthreads_and": "bar_sync_and",
    "syncthreads_or": "bar_sync_or",
    "__syncthreads_count": "bar_sync_count",
    "__syncthreads_and": "bar_sync_and",
    "__syncthreads_or": "bar_sync_or",
    "__syncwarp": "syncwarp",
    "__shfl_sync": "shfl_sync_idx",
    "shfl_sync": "shfl_sync_idx",
    "__shfl_up_sync": "shfl_sync_up",
    "__shfl_down_sync": "shfl_sync_down",
    "__shfl_xor_sync": "shfl_sync_bfly",
    "shfl_xor_sync": "shfl_sync_bfly",
    "all_sync": "vote_all",
    "any_sync": "vote_any",
    "eq_sync": "vote_uni",
    "ballot_sync": "ballot",
    "__all_sync": "vote_all",
    "__any_sync": "vote_any",
    "__ballot_sync": "ballot",
    "match_any_sync": "match_any",
    "match_all_sync": "match_all",
    "__match_any_sync": "match_any",
    "__match_all_sync": "match_all",
    "__activemask": "activemask",
    "this_grid": "grid_sync",
    "laneid": "lane_id",
    "shared": "shared_mem",
    "local": "local_mem",
    "const": "const_mem",
    "threadfence": "fence",
    "threadfence_block": "fence",
    "threadfence_system": "fence",
    "__threadfence": "fence",
    "__ldg": "load",
    "ldg": "load",
    "memcpy_async": "cp_async",
    "reinterpret_cast": "bitcast",
    "static_range": "unrolled",
    "atomic": "atomic_add",
    **dict.fromkeys(("shfl_up", "shfl_up_sync"), "shfl_sync_up"),
    **dict.fromkeys(("shfl_down", "shfl_down_sync"), "shfl_sync_down"),
    **dict.fromkeys(("shfl_xor", "__shfl_xor"), "shfl_sync_bfly"),
    **dict.fromkeys(("barrier", "sync_threads", "debug_barrier"), "bar_sync"),
    **dict.fromkeys(("tid", "thread_id"), "thread_idx"),
    "program_id": "block_idx",
    "num_programs": "grid_dim",
    "cg": "grid_sync",
    "clock64": "clock",
    "__float2half": "f16",
    "__half2float": "f32",
    "__fdividef": "fast_div",
    "__pipeline_memcpy_async": "cp_async",
    "__pipeline_wait_prior": "cp_async_wait",
    "curand_uniform": "random_uniform",
    "curand_normal": "random_normal",
    **{f"atomic{name}": f"atomic_{name.lower()}" for name in ("Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch")},
    "atomicCAS": "atomic_cas",
    "compare_and_swap": "atomic_cas",
    **dict.fromkeys(("half2", "__half2"), "f16x2"),
    **dict.fromkeys(("bfloat162", "__nv_bfloat162"), "bf16x2"),
    **{f"{make}float{n}": f"f32x{n}" for make in ("", "make_") for n in (2, 4)},
    **{f"{make}int{n}": f"i32x{n}" for make in ("", "make_") for n in (2, 4)},
    **{f"{make}uint{n}": f"u32x{n}" for make in ("", "make_") for n in (2, 4)},
    **{f"{make}{c}4": f"{t}x4" for make in ("", "make_") for c, t in (("char", "i8"), ("uchar", "u8"))},
    **{f"{make}double2": "f64x2" for make in ("", "make_")},
}
"""Names of CUDA C++, of Numba's `cuda` and of Triton."""

_FORMAT_LATER = "store numbers in a buffer and format them after the launch"
_ARRAY = "an array of the thread is `kaio.local_mem(shape, dtype)`, and a few values are a tuple `(a, b)`"
_KNOWN_TYPE = "each type is known when compiling: see `kernel.types()`, and branch on a dtype with `x.dtype == f32`"

_INSTEAD = {
    "sum": "add in a `for` loop",
    "pow": "write `a ** b`",
    "divmod": "write `a // b` and `a % b`",
    "any": "write `a or b`",
    "all": "write `a and b`",
    "enumerate": "write `for i in range(n):`",
    "zip": "write `for i in range(n):` and index each buffer",
    "reversed": "count down: `range(n - 1, -1, -1)`",
    "map": "call the function in a `for` loop",
    "filter": "write a `for` loop with an `if`",
    "sorted": "sort on the host, or write the exchanges out: `low, high = min(a, b), max(a, b)`",
    "iter": "write `for i in range(n):`",
    "next": "write `for i in range(n):`",
    "tuple": "write the items: `(a, b)`",
    "input": "pass the value as a parameter of the kernel",
    "open": "read the file before the launch, and pass its contents in a buffer",
    "eval": "write the code out, or choose between functions outside the kernel",
    "exec": "write the code out, or choose between functions outside the kernel",
    "super": "call a plain function by its name",
    "exit": "end this thread with `return`",
    "quit": "end this thread with `return`",
    **dict.fromkeys(("warpSize", "warpsize", "WARP_SIZE"), "a warp has 32 threads: write 32"),
    "gridsize": "write `kaio.grid_dim.x * kaio.block_dim.x`",
    **dict.fromkeys(("str", "repr", "ascii", "format", "chr", "ord", "hex", "oct", "bin"), _FORMAT_LATER),
    **dict.fromkeys(("list", "dict", "set", "frozenset", "bytes", "bytearray", "memoryview"), _ARRAY),
    **dict.fromkeys(("type", "isinstance", "issubclass", "hasattr", "callable"), _KNOWN_TYPE),
    **dict.fromkeys(("getattr", "setattr", "delattr", "vars", "dir"), "write the attribute itself: `x.name`"),
    **dict.fromkeys(("globals", "locals"), "read the variable by its name"),
    **dict.fromkeys(("id", "hash"), "a value of a kernel has no identity: compare with `==`"),
}

_METHODS = {
    "sum": "add in a `for` loop over `range({x}.size)`; a block adds up with `kaio.block_reduce_sum(value)`",
    "prod": "multiply in a `for` loop; a block multiplies with `kaio.block_reduce_prod(value)`",
    "mean": "add in a `for` loop over `range({x}.size)`, and divide by `{x}.size`",
    "dot": "add products in a `for` loop over the shared axis",
    **dict.fromkeys(
        ("argmax", "argmin"), "keep value and index in a loop; a block has `kaio.block_reduce_{name}(value)`"
    ),
    "astype": "cast an element: `f32({x}[i])`; a whole buffer is cast before the launch",
    "item": "index it: `{x}[i]`",
    "append": "a buffer has a fixed size: count with `kaio.atomic_add(count, 0, 1)` and store at the old value",
    "len": "write `len({x})` or `{x}.size`",
    "length": "write `len({x})` or `{x}.size`",
    **dict.fromkeys(
        ("max", "min"), "write `best = {name}(best, {x}[i])` in a loop; a block has `kaio.block_reduce_{name}(value)`"
    ),
    **dict.fromkeys(("any", "all"), "test each element in a `for` loop"),
    **dict.fromkeys(("copy", "fill", "clip", "round"), "set each element: `{x}[i] = ...`"),
    **dict.fromkeys(("T", "transpose"), "change the order of the indices: `{x}[j, i]`"),
    **dict.fromkeys(
        ("reshape", "ravel", "flatten", "squeeze"), "do it before the launch: `{x}.reshape(...)` copies nothing"
    ),
    "view": "several elements at once are `kaio.load({x}, i, kaio.f32x4)`; a whole buffer is viewed before the launch",
    **dict.fromkeys(("to_host", "tolist", "numpy", "cpu"), "do it after the launch, in Python"),
    **dict.fromkeys(("device", "generation", "close"), "it is the host's: use it outside the kernel"),
    **dict.fromkeys(("itemsize", "nbytes"), "compute it from `{x}.size` and the bytes of its dtype"),
}


def check_names(scope: Scope) -> Iterator[Mistake]:
    """The names that mean nothing, in source order."""
    # `enumerate(x)` and its kin are told of as what a loop cannot go over.
    told = {node.iter.func for node in scope.nodes if isinstance(node, ast.For) and isinstance(node.iter, ast.Call)}
    told |= {node.annotation for node in scope.nodes if isinstance(node, ast.AnnAssign)}
    for node in scope.nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if not scope.is_local(name) and not (
                node in told and hasattr(builtins, name)
            ):
                yield from _outer_name(scope, node)
            case ast.Attribute(ctx=ast.Load()):
                yield from _attribute(scope, node)


def _outer_name(scope: Scope, node: ast.Name) -> Iterator[Mistake]:
    name, value = node.id, scope.lookup(node.id)
    if value is UNKNOWN and name == "cuda":
        yield from (
            _of_another_library(scope, a) for a in scope.nodes if isinstance(a, ast.Attribute) and a.value is node
        )
    elif value is UNKNOWN:
        called = any(isinstance(call, ast.Call) and call.func is node for call in scope.nodes)
        yield scope.mistake(f"there is no `{name}` here", node, _meant(scope, name, called))
    elif value is getattr(builtins, name, UNKNOWN) and name not in _BUILTINS:
        allowed = ", ".join(f"`{name}`" for name in _BUILTINS)
        help_text = _INSTEAD.get(name, f"of Python's own functions a kernel has {allowed}")
        yield scope.mistake(f"a kernel has no `{name}`", node, help_text)


def _meant(scope: Scope, name: str, called: bool) -> str:
    """The way out for an unknown name: kaio's name of it, a close one, or how names are made known."""
    kaio = sys.modules["kaio"]
    if name in _INSTEAD:
        return _INSTEAD[name]
    wanted = _FROM_CUDA.get(name, name)
    if wanted in getattr(kaio, "__all__", ()):
        aliases = [alias for alias, value in scope.function.__globals__.items() if value is kaio]
        return f"write `{aliases[0]}.{wanted}`" if aliases else f"import it: `from kaio import {wanted}`"
    outer = [*scope.function.__code__.co_freevars, *scope.function.__globals__]
    known = [*scope.parameters, *scope.stores, *outer, *_BUILTINS]
    near = _near(name, known)
    if near:
        return f"did you mean `{near}`?"
    if called:
        return f"define the function `{name}` outside the kernel, or import it"
    return f"pass it as a parameter (`{name}: Const[int]` is a constant), or set it before the kernel is defined"


def _near(name: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(name, [k for k in known if not k.startswith("__")], 1)
    return found[0] if found else None


def _attribute(scope: Scope, node: ast.Attribute) -> Iterator[Mistake]:
    base = node.value
    if isinstance(base, ast.Name) and base.id in scope.buffers:
        if node.attr in _METHODS:
            instead = _METHODS[node.attr].format(x=base.id, name=node.attr)
            yield scope.mistake(f"a buffer has no `{node.attr}` in a kernel", node, instead)
        elif node.attr not in _BUFFER_ATTRIBUTES:
            yield _wrong_attribute(scope, node, "a buffer", _BUFFER_ATTRIBUTES)
        return
    value = scope.value_of(base)
    if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] in _OTHER_LIBRARIES:
        if not isinstance(getattr(value, node.attr, None), types.ModuleType):
            yield _of_another_library(scope, node)
    elif isinstance(value, Namespace):
        if node.attr not in _AXES:
            yield _wrong_attribute(scope, node, f"`{ast.unparse(base)}`", _AXES)
    elif isinstance(value, types.ModuleType) and not _is_loading(value) and not hasattr(value, node.attr):
        help_text = _meant_of_module(value, ast.unparse(base), node.attr)
        yield scope.mistake(f"module `{value.__name__}` has no `{node.attr}`", node, help_text)


def _meant_of_module(module: types.ModuleType, written: str, name: str) -> str | None:
    """The way out for a name that a module does not have."""
    if module.__name__ in ("kaio", "math", "numpy"):
        elsewhere = instead_of_function(name)
        if elsewhere:
            return f"write `{elsewhere}`" if elsewhere.startswith("kaio.") else f"write Python's `{elsewhere}`"
    wanted = _FROM_CUDA.get(name)
    near = wanted if wanted and hasattr(module, wanted) else _near(name, _public(module))
    if module.__name__ == "numpy":
        return f"{NOT_NUMPY}; use Python's `math` or kaio's own functions"
    if module.__name__ == "kaio":
        if name in _INSTEAD:
            return _INSTEAD[name]
        if name.startswith("atomic") and (near != wanted or name == "atomic"):
            listed = ", ".join(_atomics(module, written))
            return f"of the atomic functions there are {listed}; any other update is a loop of `atomic_cas`"
    return f"did you mean `{written}.{near}`?" if near else None


def _atomics(kaio: types.ModuleType, written: str) -> list[str]:
    return [f"`{written}.{name}`" for name in _public(kaio) if name.startswith("atomic_")]


def _of_another_library(scope: Scope, node: ast.Attribute) -> Mistake:
    kaio = sys.modules["kaio"]
    near = _FROM_CUDA.get(node.attr, node.attr)
    if node.attr == "atomic":  # of Numba: `cuda.atomic.add`
        update = next(
            (outer.attr for outer in scope.nodes if isinstance(outer, ast.Attribute) and outer.value is node), ""
        )
        update = update.removeprefix("nan").rstrip("_")
        near = next((n for n in (_FROM_CUDA.get(update), f"atomic_{update}") if n and hasattr(kaio, n)), near)
    help_text = (
        _INSTEAD[node.attr]
        if node.attr in _INSTEAD
        else f"write `kaio.{near}`"
        if hasattr(kaio, near)
        else "use Python's `math` or kaio's own functions"
    )
    return scope.mistake(f"`{ast.unparse(node)}` is not kaio's, and cannot be used in a kernel", node, help_text)


def _wrong_attribute(scope: Scope, node: ast.Attribute, whose: str, known: tuple[str, ...]) -> Mistake:
    near = _near(node.attr, known)
    listed = f"{', '.join(known[:-1])} and {known[-1]}"
    help_text = f"did you mean `{ast.unparse(node.value)}.{near}`?" if near else f"{whose} has {listed}"
    return scope.mistake(f"{whose} has no `{node.attr}` in a kernel", node, help_text)


def _is_loading(module: types.ModuleType) -> bool:
    """Whether the module is still being imported, so that its names are not all there."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _public(module: Any) -> list[str]:
    return [name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")]
