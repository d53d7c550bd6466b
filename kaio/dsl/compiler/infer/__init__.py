"""The type of every name, by the rules of `kaio.dsl.rules`; all type mistakes at once.

Types are computed from the operands' in rounds until nothing changes. Inside a round a phi takes the common type of
what is known so far (`acc = 0; acc = (acc + i) * x[i]` is i32 in the first round and f32 in the second); only when the
types have settled are variables that mean two types reported. A temporary's phi is a conditional expression and merges
as one; a named variable's phi is strict, and never narrower than i32 or f32. (This is why Numba's own fixpoint is not
used: it merges types without knowing the variable.)
"""

from __future__ import annotations

from collections.abc import Mapping

from kaio.dsl.compiler import ir
from kaio.dsl.compiler.captures import Capture
from kaio.dsl.compiler.infer.inference import Inference, TypeCallee
from kaio.dsl.compiler.infer.precision import warn_of_lost_precision
from kaio.dsl.compiler.infer.variables import check_variables
from kaio.dsl.values import Type
from kaio.dtypes import DType
from kaio.errors import KernelTypeError, is_message

__all__ = ["infer"]

__tracebackhide__ = is_message


def infer(
    function: ir.Function,
    arguments: Mapping[str, Type],
    index: DType,
    type_callee: TypeCallee,
    captures: dict[tuple[int, str], Capture],
) -> ir.Typed:
    """Type a function for these argument types and this index type.

    `type_callee` types a device function that it calls. What the function reads of modules and objects is added to
    `captures`.
    """
    __tracebackhide__ = is_message
    inference = Inference(function, arguments, index, type_callee, captures)
    inference.settle()
    check_variables(inference)
    if inference.mistakes:
        found = sorted(inference.mistakes.values(), key=lambda m: (m.place.line, m.place.column) if m.place else (0, 0))
        raise KernelTypeError(dict.fromkeys(found))
    given = tuple(arguments.get(param) for param in function.params)
    typed = ir.Typed(function, inference.types, inference.calls, given, inference.result)
    warn_of_lost_precision(typed)
    return typed
