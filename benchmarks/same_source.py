"""A kernel of the examples as numba-cuda has it: the same source with the names of the other library."""

from __future__ import annotations

import ast

import kaio
from kaio.dsl.types import BufferAnnotation, ScalarAnnotation

__all__ = ["Untranslated", "numba_source", "numba_types"]

_CUDA = {
    "grid": "cuda.grid", "thread_idx": "cuda.threadIdx", "block_idx": "cuda.blockIdx", "block_dim": "cuda.blockDim",
    "grid_dim": "cuda.gridDim", "shared_mem": "cuda.shared.array", "local_mem": "cuda.local.array",
    "bar_sync": "cuda.syncthreads", "syncwarp": "cuda.syncwarp", "fma": "cuda.fma",
    **{f"atomic_{name}": f"cuda.atomic.{name}" for name in ("add", "sub", "min", "max", "and", "or", "xor", "exch")},
    **{f"{kind}{bits}": f"{word}{bits}" for kind, word in (("i", "int"), ("u", "uint"), ("f", "float"))
       for bits in (8, 16, 32, 64) if kind != "f" or bits >= 32},
    "bool_": "boolean",
}  # fmt: skip

PRELUDE = """\
import math
from numba import cuda, boolean, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, void
"""


class Untranslated(Exception):
    """numba-cuda has no word for something that the kernel says."""


class _ToNumba(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        arguments = node.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            argument.annotation = None
        is_kernel = any("kernel" in ast.unparse(decorator) for decorator in node.decorator_list)
        device = ast.parse("cuda.jit(device=True)", mode="eval").body
        node.returns, node.decorator_list = None, [] if is_kernel else [device]
        if ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "kaio":
            return _named(node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _named(node.id) if node.id in kaio.__all__ else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        raise Untranslated("an annotated variable")


def _named(name: str) -> ast.AST:
    if name not in _CUDA:
        raise Untranslated(f"kaio.{name}")
    return ast.parse(_CUDA[name], mode="eval").body


def numba_source(text: str) -> str:
    """A text of kaio as one of numba-cuda; kernels become plain functions, which `cuda.compile` takes."""
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return PRELUDE + ast.unparse(ast.fix_missing_locations(_ToNumba().visit(tree))) + "\n"


def numba_types(kernel: kaio.Kernel) -> str:
    """The types of a kernel's parameters, as `cuda.compile` takes them."""
    return f"void({', '.join(_type(param.annotation) for param in kernel.signature.params)})"


def _type(annotation: object) -> str:
    if isinstance(annotation, BufferAnnotation) and annotation.ndim:
        axes = [":"] * (annotation.ndim - 1) + ["::1"]
        return f"{_CUDA[annotation.dtype.__name__]}[{', '.join(axes)}]"
    if isinstance(annotation, ScalarAnnotation):
        return _CUDA[annotation.dtype.__name__]
    raise Untranslated(f"a parameter {annotation!r}")
