"""Python to SSA: control flow that means what Python means, true places, and what is used of numba-cuda's internals."""

from __future__ import annotations

import dis
import inspect
import itertools
import sys
from importlib.metadata import version

import numpy as np
import pytest
from numba.cuda.compiler import CUDABytecodeInterpreter
from numba.cuda.core import bytecode, errors
from numba.cuda.core import ir as nir
from numba.cuda.core.ssa import reconstruct_ssa

import kaio
from kaio import i32
from kaio.dsl.compiler import ir
from kaio.dsl.compiler.parse import parse
from kaio.dsl.compiler.translate import translate
from kaio.program import Build
from tests.dsl.from_text import kernel, message, mistakes, namespace, run

UPGRADE = (
    f"numba-cuda {version('numba-cuda')} differs from what kaio/dsl/compiler/translate.py was written for: "
    "read that file's docstring, adapt it, then this test"
)


# ---------------------------------------------------------------------- the contract with numba-cuda
def parameters(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def sample(x, n):
    total = 0
    for i in range(n):
        if i > 2 and x[i]:
            total += x[i]
    return (total, -n)[0]


def interpreted(function):
    identity = bytecode.FunctionIdentity.from_function(function)
    return reconstruct_ssa(CUDABytecodeInterpreter(identity).interpret(bytecode.ByteCode(identity)))


def test_signatures_of_numba_cuda():
    assert parameters(bytecode.FunctionIdentity.from_function) == ["pyfunc"], UPGRADE
    assert parameters(bytecode.ByteCode) == ["func_id"], UPGRADE
    assert parameters(CUDABytecodeInterpreter) == ["func_id"], UPGRADE
    assert parameters(CUDABytecodeInterpreter.interpret) == ["self", "bytecode"], UPGRADE
    assert parameters(CUDABytecodeInterpreter._dispatch) == ["self", "inst", "kws"], UPGRADE
    assert parameters(reconstruct_ssa) == ["func_ir"], UPGRADE
    assert parameters(nir.Loc)[:3] == ["filename", "line", "col"], UPGRADE
    assert issubclass(errors.NumbaError, Exception), UPGRADE
    assert issubclass(errors.NumbaWarning, Warning), UPGRADE


FIELDS = {
    "Assign": ("target", "value", "loc"),
    "SetItem": ("target", "index", "value", "loc"),
    "Jump": ("target", "loc"),
    "Branch": ("cond", "truebr", "falsebr", "loc"),
    "Return": ("value", "loc"),
    "Arg": ("name", "index"),
    "Const": ("value",),
    "Global": ("name", "value"),
    "FreeVar": ("name", "value"),
    "Var": ("name",),
    "Expr": ("op",),
}


def test_statements_of_numba_cuda():
    outside = 3

    def closure(x, n):
        x[n] = outside
        return sample(x, n)

    def every(func_ir):
        for block in func_ir.blocks.values():
            for statement in block.body:
                yield statement
                if isinstance(statement, nir.Assign):
                    yield statement.value

    found = {}
    for item in itertools.chain(every(interpreted(sample)), every(interpreted(closure))):
        found.setdefault(type(item).__name__, []).append(item)
    for name, fields in FIELDS.items():
        assert name in found, f"no {name}: {UPGRADE}"
        assert all(hasattr(item, field) for item in found[name] for field in fields), f"fields of {name}: {UPGRADE}"
    ops = {e.op for e in found["Expr"]}
    needed = {"call", "getitem", "getiter", "iternext", "pair_first", "pair_second", "exhaust_iter", "build_tuple"}
    assert ops >= (needed - {"exhaust_iter"}) | {"binop", "inplace_binop", "unary", "phi", "cast"}, UPGRADE
    phi = next(e for e in found["Expr"] if e.op == "phi")
    assert len(phi.incoming_blocks) == len(phi.incoming_values) >= 2, UPGRADE
    assert all(v is nir.UNDEFINED or isinstance(v, nir.Var) for v in phi.incoming_values), UPGRADE
    call = next(e for e in found["Expr"] if e.op == "call")
    assert (call.vararg, call.kws) == (None, ()), UPGRADE
    assert {"arg_names", "blocks"} <= set(dir(interpreted(sample))), UPGRADE
    assert all(isinstance(b.body[-1], nir.Jump | nir.Branch | nir.Return) for b in interpreted(sample).blocks.values())
    assert all(hasattr(nir, name) for name in ("Del", "Raise", "StaticRaise", "DynamicRaise")), UPGRADE


def test_bytecode_is_shifted_by_a_constant_and_maps_to_columns():
    """`co_positions()` has one entry for each two bytes of code; numba-cuda moves every offset by `_FIXED_OFFSET`."""
    identity = bytecode.FunctionIdentity.from_function(sample)
    table = bytecode.ByteCode(identity).table
    own = {i.offset + bytecode._FIXED_OFFSET: i.opname for i in dis.get_instructions(sample)}
    assert {at: inst.opname for at, inst in table.items() if at in own and inst.opname != "NOP"}.items() <= own.items()
    assert len(set(table) & set(own)) > 20, UPGRADE
    positions = list(sample.__code__.co_positions())
    assert len(positions) == len(sample.__code__.co_code) // 2
    at = next(inst.offset for inst in table.values() if inst.opname == "BINARY_OP" and inst.lineno == 6 + first_line())
    line, _, column, end_column = positions[(at - bytecode._FIXED_OFFSET) // 2]
    text = inspect.getsource(sample).splitlines()[line - sample.__code__.co_firstlineno]
    assert text[column:end_column] == "total += x[i]", UPGRADE


def first_line() -> int:
    return sample.__code__.co_firstlineno - 2


# ---------------------------------------------------------------------- what the SSA looks like
def shape(source: str, **consts) -> ir.Function:
    made = kernel(source)
    return translate(made.__wrapped__, parse(made.__wrapped__), consts).function


def statements(function: ir.Function) -> list[ir.Statement]:
    return [s for block in function.blocks for s in block.body]


FLAGGED = """
    @kernel
    def k(x: InOut[i32], flag: Const[bool], n: i32):
        if flag and n > 0:
            x[0] = 1
        elif not flag:
            x[1] = 2
        x[2] = 3 if flag else 4
"""


def test_branches_that_a_const_decides_are_dropped():
    stored = {
        flag: [str(s) for s in statements(shape(FLAGGED, flag=flag)) if isinstance(s, ir.SetItem)]
        for flag in (True, False)
    }
    assert [len(lines) for lines in stored.values()] == [2, 2]
    constants = [
        {
            s.op.value
            for s in statements(shape(FLAGGED, flag=flag))
            if isinstance(s, ir.Assign) and isinstance(s.op, ir.Constant) and type(s.op.value) is int
        }
        for flag in (True, False)
    ]
    assert constants[0] >= {1, 3}
    assert not constants[0] & {4}
    assert constants[1] >= {2, 4}
    assert not constants[1] & {3}
    assert not any(isinstance(b.terminator, ir.Branch) for b in shape(FLAGGED, flag=False).blocks)


DECIDED = [
    ("FLAG", {"FLAG": True}),
    ("not FLAG", {"FLAG": False}),
    ("N > 3", {"N": 4}),
    ("N % 2 == 1 and M", {"N": 5, "M": 1}),
    ("1 < 2", {}),
    ("NOTHING is None", {"NOTHING": None}),
    ("DTYPE is f32", {"DTYPE": kaio.f32}),
    ("N or 1 // 0", {"N": 2}),
    ("bool(N)", {"N": 2}),
    ("-N < 0", {"N": 2}),
]


@pytest.mark.parametrize(("condition", "names"), DECIDED, ids=[d[0] for d in DECIDED])
def test_branches_that_captured_values_decide_are_never_typed(condition, names):
    made = kernel(
        f"@kernel\ndef k(x: InOut[i32]):\n    if {condition}:\n        x[0] = 1\n    else:\n        x[0] = 0.5\n",
        **names,
    )
    assert "branch" not in made.types()
    ((first, *_),) = run(made, [], [i32], size=1)
    assert first == 1


def test_a_literal_argument_decides_a_branch_of_a_device_function():
    made = kernel("""
        def part(x, mode, n):
            if mode == 1:
                return x[n]
            if mode > 1:
                return x
            return 0

        @kernel
        def k(x: InOut[i32]):
            x[0] = part(x, 1, 2) + part(part(x, 2, 0), 1, 3) + part(x, 0, 0)
    """)
    device = kaio.Device("cpu")
    x = device.alloc_from(np.array([0, 0, 5, 7], np.int32))
    made.grid(1).block(1).launch(x).wait()
    assert x.to_host()[0] == 12


# ---------------------------------------------------------------------- control flow means what it means in Python
FUNCTIONS = """
def while_loop(n):
    total, k = 0, 0
    while k < n:
        k += 1
        if k % 3 == 0:
            continue
        if k > 20:
            break
        total += k
    return total

def while_true(n):
    k = i32(1)
    while True:
        if k * k > n:
            return k
        k += 1

def nested(n):
    total = 0
    for i in range(n):
        for j in range(i, 0, -1):
            if (i + j) % 4 == 0:
                continue
            if j * 3 < i:
                break
            total += i * j
        if total > 500:
            break
    return total

def loop_variable_after_the_loop(n):
    i = 7
    for i in range(2, n):
        pass
    return i

def break_out_of_two(n):
    found = -1
    for i in range(1, n + 1):
        for j in range(1, i):
            if i * j == 12:
                found = i
                break
        if found > 0:
            break
    return found

def changes_the_loop_variable(n):
    total = 0
    for i in range(n):
        i = i * 2
        total += i
    return total

def swap(n):
    a, b, c = 0, 1, 2
    for _ in range(n):
        a, b, c = b, c, (a + b) % 1000
    return a * 1000 + b + c

def fibonacci(n):
    a, b = 0, 1
    while b < n:
        a, b = b, a + b
    return a

def early_returns(n):
    if n < 0:
        return -1
    if n == 0:
        return 0
    for i in range(2, n):
        if n % i == 0:
            return i
    return n

def chain(n):
    return 1 if 0 < n < 5 else 2 if 5 <= n != 7 else 3

def short_circuit(n):
    return 1 if n != 0 and 100 // n > 9 else 0

def short_circuit_or(n):
    return 1 if n == 0 or 100 // n > 9 else 0

def mixed(n):
    return 1 if (n > 3 and n % 2) or not (n < 8 or n == 11) else 0

def value_of_and_or(n):
    return (n and 7) + (n - 3 or 100) + (n > 2 and n < 5)

def tuples(n):
    pair = (n, n + 1)
    a, (b, c) = pair[1], (pair[0], len(pair))
    return a * 100 + b * 10 + c

def elif_chain(n):
    r = 0
    if n < 0:
        r = 1
    elif n < 3:
        r = 2
    elif n < 6:
        r = 3
        if n == 4:
            r = 40
    else:
        r = 5
    return r

def while_with_and(n):
    k = 0
    while k < n and k * k < 50:
        k += 1
    return k

def ranges(n):
    total = 0
    for i in range(n, -n, -3):
        total += i + 1
    for i in range(-n, n, 4):
        total = total * 3 % 1009 + i
    for i in range(n):
        if i == 3:
            continue
        total += 1
    return total

def collatz(n):
    steps = 0
    while n > 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps

def walrus_free_pass(n):
    if n > 3:
        pass
    else:
        n = n + 1
    return n

def two_loops(n):
    k = 0
    for i in range(n):
        k += i
    for i in range(k % 5):
        k -= i
    while k > 10:
        k -= 7
    return k
"""
NAMES = [
    name for name, value in namespace(FUNCTIONS).items() if inspect.isfunction(value) and value.__module__ == "text"
]
VALUES = np.arange(-6, 25, dtype=np.int32)


@pytest.mark.parametrize("name", NAMES)
def test_control_flow_gives_what_python_gives(name):
    source = (
        FUNCTIONS
        + f"""
@kernel
def k(x: In[i32], out: Out[i32]):
    i = grid(1)
    if i < x.size:
        out[i] = {name}(x[i])
"""
    )
    space = namespace(source)
    (got,) = run(space["k"], [VALUES], [i32])
    assert got.tolist() == [int(space[name](int(v))) for v in VALUES]
    assert space["k"].compile("sm_90").cubin


def test_short_circuit_does_not_evaluate_the_right_side():
    made = kernel("""
        @kernel
        def k(x: In[i32], out: Out[i32]):
            i = grid(1)
            if i < x.size and x[i] > 0:
                out[i] = 1 if i + 1 >= x.size or x[i + 1] > 0 else 2
    """)
    (got,) = run(made, [np.array([1, 1, 0, 1], np.int32)], [i32], check="bounds")
    assert got.tolist() == [1, 2, 0, 1]


def test_keyword_and_default_arguments_of_the_kernel_are_there():
    made = kernel("@kernel\ndef k(x: InOut[i32], *, n: i32 = 3, f: Const[int] = 4):\n    x[0] = n + f\n")
    assert run(made, [], [i32], size=1)[0][0] == 7


# ---------------------------------------------------------------------- places
def places(source: str, what) -> list[str]:
    """The stretches of source of all statements of a kind."""
    function = shape(source)
    return [s.place.text[s.place.column : s.place.end_column] for s in statements(function) if what(s)]


def is_op(kind):
    return lambda s: isinstance(s, ir.Assign) and isinstance(s.op, kind)


def test_every_statement_has_the_stretch_of_source_that_it_came_from():
    source = """
        @kernel
        def k(x: InOut[i32], n: i32):
            größe = x[n] * 2; y = größe + x[n - 1]   # two statements
            x[grid(1)] = -y if größe < n else min(y, 3)
    """
    assert places(source, is_op(ir.Binary)) == ["x[n] * 2", "n - 1", "größe + x[n - 1]", "größe < n"]
    assert sorted(places(source, is_op(ir.Call))) == ["grid(1)", "größe < n", "min(y, 3)"]
    assert places(source, is_op(ir.GetItem)) == ["x[n]", "x[n - 1]"]
    assert places(source, is_op(ir.Unary)) == ["-y"]
    assert places(source, lambda s: isinstance(s, ir.SetItem)) == ["x[grid(1)]"]


def test_columns_are_characters_also_behind_wide_letters():
    found = mistakes("@kernel\ndef k(größe: In[u64], 日本: i32, x: InOut[i32]):\n    x[0] = i32(größe[0] + 日本)\n")
    (place,) = [m.place for m in found]
    assert (place.line, place.column, place.end_column) == (3, 15, 28)
    assert place.text[place.column : place.end_column] == "größe[0] + 日本"


def test_an_expression_over_several_lines_is_shown_from_its_first():
    text = message("""
        @kernel
        def k(q: In[u64], n: i32, x: InOut[i32]):
            y = (1 +
                 q[0]
                 + n)
            x[0] = i32(
                (n
                 + y)
            )
    """)
    assert text == (
        "`u64 + i32` has no exact common type\n"
        "  <text>:4:10, in k\n"
        "          y = (1 +\n"
        "               ^^^\n"
        "  help: cast one side, for example `1 + q[0] + kaio.u64(n)`"
    )


def test_the_line_of_a_mistake_is_that_of_the_file():
    source = "\n" * 40 + "@kernel\n@(lambda f: f)\ndef k(x: InOut[i32]):\n\n    # a comment\n    x[0] = 0.5\n"
    (mistake,) = mistakes(source.replace("@(lambda f: f)\n", ""))
    assert mistake.place.line == 45


def test_kernels_of_a_class_and_of_a_function_have_true_places():
    space = namespace("""
        class Kernels:
            @staticmethod
            @kernel
            def k(x: InOut[i32]):
                x[0] = 0.5

        def make(n):
            @kernel
            def k(x: InOut[i32]):
                x[n] = 1
                x[1] = n + 0.5
            return k
    """)
    for made, line in ((space["Kernels"].k, 6), (space["make"](3), 12)):
        with pytest.raises(kaio.KernelTypeError) as caught:
            made.types()
        assert caught.value.mistakes[0].place.line == line


# ---------------------------------------------------------------------- captures
def test_captures_are_what_the_kernel_reads_from_outside():
    space = namespace("""
        N = 3
        UNUSED = 4
        SPACE = math

        def helper(v):
            return v * OTHER

        OTHER = 2

        def make(m):
            @kernel
            def k(x: InOut[f32]):
                x[0] = helper(x[N]) + m + SPACE.pi
            return k
    """)
    made = space["make"](5)
    captures = made.variants.build("sm_90", Build("off"), {}, {}, 32).compiled.captures
    others = {c.name for c in captures if c.namespace is not space["helper"]}
    assert others == {"N", "SPACE", "helper", "OTHER", "m", "pi"}
    parts = {c.name for c in captures if c.namespace is space["helper"]}
    assert parts == {"__code__", "__defaults__", "__kwdefaults__"}


# ---------------------------------------------------------------------- what meets where ways join
def first_eight(source: str, n: int) -> list[float]:
    """What a kernel of buffers x (0 to 7) and y (100 to 107) leaves in x."""
    device = kaio.Device("cpu")
    x, y = (device.alloc_from(np.arange(8, dtype=np.float32) + start) for start in (0, 100))
    made = kernel(source)
    assert made.compile("sm_90").cubin
    made.grid(1).block(1).launch(x, y, n).wait()
    return x.to_host().tolist()


def test_buffers_and_arrays_swap_and_are_chosen():
    source = """
        @kernel
        def k(x: InOut[f32], y: InOut[f32], n: i32):
            a, b = x, y
            for i in range(3):
                a[i] = b[i + 1] + 0.5
                a, b = b, a
            t = x if n > 0 else y
            t[7] = -1
            s, u = shared_mem(4, f32), shared_mem(4, f32)
            w = s if n > 0 else u
            w[1] = 3
            s[2], u[2] = 4, 5
            x[0] = w[2] + w[1]
    """
    assert first_eight(source, 1) == [7, 1, 103.5, 3, 4, 5, 6, -1]
    assert first_eight(source, 0) == [8, 1, 103.5, 3, 4, 5, 6, 7]


def test_a_negative_literal_of_a_conditional_counts_from_the_end():
    source = """
        @kernel
        def k(x: InOut[f32], y: InOut[f32], n: i32):
            mine = local_mem(3, f32)
            mine[0], mine[1], mine[2] = 10, 20, 30
            x[-2 if n > 0 else 1] = mine[-1 if n > 0 else 0]
    """
    assert first_eight(source, 1) == [0, 1, 2, 3, 4, 5, 30, 7]
    assert first_eight(source, 0) == [0, 10, 2, 3, 4, 5, 6, 7]


def test_a_function_gives_back_the_buffer_that_it_chose():
    source = """
        def pick(x, y, n):
            if n > 0:
                return x
            return y

        @kernel
        def k(x: InOut[f32], y: InOut[f32], n: i32):
            x[0] = pick(x, y, n)[3]
    """
    assert [first_eight(source, n)[0] for n in (1, 0)] == [3, 103]


def test_one_of_several_literals_is_the_right_one_wherever_ways_join():
    source = """
        def one(n):
            return 1 if n == 0 else 2 if n == 1 else 3

        def two(n):
            if n == 0:
                return 5, (0.5, 7)
            return 6 if n == 1 else 5, (1.5, n)

        @kernel
        def k(x: InOut[f32], y: InOut[f32], n: i32):
            p, q = (1, 2) if n == 0 else (3, 4)
            v = 5
            if n > 0:
                v = 6 if n > 1 else 7
            a, (b, c) = two(n)
            x[0] = one(n) * 10
            x[1] = p * 10 + q
            x[2] = v * (1 if n == 1 else 2)
            x[3], x[4], x[5] = a, b, c
            x[6] = (1 if n == 0 else 0.25) + (2 if n == 0 else 3)
            x[7] = -(1 if n == 0 else 2) < (-1.5 if n == 0 else -3.5)
    """.replace("x[7] = -", "x[7] = f32(-").replace("-3.5)\n", "-3.5))\n")
    assert [first_eight(source, n) for n in (0, 1, 2)] == [
        [10, 12, 10, 5, 0.5, 7, 3, 0],
        [20, 34, 7, 6, 1.5, 1, 3.25, 0],
        [30, 34, 12, 5, 1.5, 2, 3.25, 0],
    ]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_python_3_12_generics_translate():
    made = kernel("@kernel\ndef k[T: (i32, f32)](x: InOut[T]):\n    x[0] = T(1.5)\n")
    assert run(made, [], [i32], size=1)[0][0] == 1
