"""The PTX: what is in it, what is not, and that it assembles for every target."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest

import kaio
from kaio import D0, D2, D3, Const, In, InOut, Out, bool_, f32, f64, i32, i64, u8, u32, u64
from kaio.dsl.compiler.cuda import toolchain
from tests.dsl.from_text import kernel
from tests.filecheck import check

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100")


def body(ptx: str) -> list[str]:
    """The instructions of the entry, without predicates."""
    inside = ptx[ptx.index("{", ptx.index(".entry")) : ptx.index("\n}")]
    lines = (line.strip() for line in inside.splitlines())
    return [re.sub(r"^@\S+\s+", "", line) for line in lines if line and line[0] not in ".{$/"]


def opcodes(ptx: str) -> list[str]:
    """What each instruction is, without its operands."""
    return [re.split(r"\s", line)[0].rstrip(";") for line in body(ptx)]


def parameters(ptx: str) -> list[tuple[str, str]]:
    """Type and name of each parameter of the entry."""
    head = ptx[ptx.index(".entry") : ptx.index("{", ptx.index(".entry"))]
    return re.findall(r"\.param \.(\w+) (\w+)", head)


def of(source: str, target: str = "sm_90", **options: Any) -> str:
    """The PTX of a kernel with the body `source`, of buffers x, y and z and scalars a, b and c of f32."""
    given = ", ".join(f"{key}={value}" for key, value in options.items())
    lines = "\n".join(f"    {line}" for line in inspect.cleandoc(source).splitlines())
    head = f"@kernel({given})\ndef k(x: InOut[f32], y: InOut[f32], a: f32, b: f32, c: f32, n: i32):\n"
    return kernel(head + lines + "\n").ptx(target)


def arithmetic(ptx: str) -> list[str]:
    """The float instructions that compute."""
    return [op for op in opcodes(ptx) if re.match(r"(add|sub|mul|fma|neg|div|sqrt)\..*f(32|64)", op)]


# ---------------------------------------------------------------------- the whole of it
@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    """
    CHECK: // saxpy(x: In[f32], y: InOut[f32], a: f32)
    CHECK-NEXT: // {{.*}}test_emit_ptx.py:{{\\d+}}
    CHECK: .visible .entry saxpy(
    CHECK-NEXT: .param .u64 x_ptr,
    CHECK-NEXT: .param .u32 x_size,
    CHECK-NEXT: .param .u64 y_ptr,
    CHECK-NEXT: .param .u32 y_size,
    CHECK-NEXT: .param .f32 a
    CHECK-NEXT: )
    CHECK: ld.param.u64 {{.*}} [x_ptr];
    CHECK-NOT: x_size
    CHECK: mad.lo.s32
    CHECK: setp.ge.s32
    CHECK-NEXT: @%p1 bra
    CHECK: mul.wide.s32
    CHECK: ld.global.f32
    CHECK: ld.global.nc.f32
    CHECK: fma.rn.f32
    CHECK: st.global.f32
    CHECK: ret;
    CHECK: .file 1 "{{.*}}test_emit_ptx.py"
    """
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


NEVER = ("selp", ".f64", "mul.f32", "add.f32", "mul.rn", "add.rn", "shr", "cvt", "call")


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "sm_100"])
def test_saxpy_is_fit_to_read_and_to_run(target):
    ptx = saxpy.ptx(target)
    check(ptx, saxpy.__doc__, never=NEVER)
    assert len(opcodes(ptx)) == 18
    assert f".target {toolchain.nvvm_architecture(target).replace('compute', 'sm')}" in ptx


def everything(x: In[f32, D2], y: In[f64], flags: Out[bool_], n: InOut[u64], small: InOut[u8], one: In[i32, D0]):
    tile = kaio.shared_mem((8, 33), f32)
    mine = kaio.local_mem(4, f64)
    count = kaio.shared_mem(1, u32)
    col, row = kaio.grid(2)
    tx, ty = kaio.thread_idx.x, kaio.thread_idx.y
    for k in range(4):
        mine[k] = y[k] * k
    if tx == 0 and ty == 0:
        count[0] = 0
    kaio.bar_sync()
    tile[ty % 8, tx] = x[row, col] if row < x.shape[0] and col < x.shape[1] else 0.0
    kaio.bar_sync()
    value = math.sin(tile[0, tx]) + math.exp(tile[1, tx]) ** 2.5
    while value > 1:
        value /= 2
        if value < 0.25:
            break
    kaio.atomic_add(count, 0, 1)
    kaio.atomic_add(n, col % n.size, 3)
    small[0] = u8(value * 255)
    flags[0] = value > 0.5 or math.isnan(mine[one[()]])
    n[0] = n[0] // 7 + u64(math.floor(mine[1])) ** 3


def test_saxpy_from_the_newer_back_end_has_the_same_instructions():
    """From sm_100 on libNVVM is another LLVM, which writes types as bits and parameters with their alignment."""
    ptx = saxpy.ptx("sm_100")
    check(ptx, "CHECK: .param .u64 .ptr .global .align {{\\d+}} x_ptr,\nCHECK-NEXT: .param .u32 x_size,", never=NEVER)
    check(ptx, "CHECK: ld.global.nc.{{[bf]}}32\nCHECK: ld.global.{{[bf]}}32", never=NEVER)
    check(ptx, "CHECK: fma.rn.f32\nCHECK: st.global.{{[bf]}}32", never=NEVER)
    assert len(opcodes(ptx)) == 19


@pytest.mark.parametrize("target", [*TARGETS, "sm_75", "sm_103", "sm_120"])
@pytest.mark.parametrize("index_bits", [32, 64])
def test_every_construct_assembles_for_every_target(target, index_bits):
    program = kaio.kernel(everything).compile(target, index_bits=index_bits)
    assert program.target == target
    assert program.cubin[:4] == b"\x7fELF"
    assert program.shared_nbytes == 8 * 33 * 4 + 4


def test_a_target_that_does_not_exist_is_refused():
    with pytest.raises(kaio.UnsupportedFeatureError, match=r"sm_70.*older than sm_75"):
        saxpy.ptx("sm_70")
    with pytest.raises(kaio.CompileError, match="'sm90' is not a target"):
        saxpy.ptx("sm90")
    with pytest.raises(kaio.CompileError, match="sm_999"):
        saxpy.compile("sm_999")


# ---------------------------------------------------------------------- names
def test_a_buffer_costs_a_pointer_and_its_sizes():
    @kaio.kernel
    def shapes(a: In[f32], b: In[u8, D2], c: InOut[i64, D3], d: In[f64, D0], e: bool_, f: u8, g: Const[int]):
        c[0, 0, 0] = g

    narrow = [
        ("u64", "a_ptr"),
        ("u32", "a_size"),
        ("u64", "b_ptr"),
        ("u32", "b_size0"),
        ("u32", "b_size1"),
        ("u64", "c_ptr"),
        ("u32", "c_size0"),
        ("u32", "c_size1"),
        ("u32", "c_size2"),
        ("u64", "d_ptr"),
        ("u8", "e"),
        ("u8", "f"),
    ]
    assert parameters(shapes.ptx(g=1)) == narrow
    wide = [(("u64" if "_size" in name else type_), name) for type_, name in narrow]
    assert parameters(shapes.ptx(g=1, index_bits=64)) == wide


CLASHES = [
    ("x: InOut[f32], x_size: i32, x_ptr: i64", ["x_ptr", "x_size", "x_size_", "x_ptr_"]),
    ("x_size: i32, x: InOut[f32]", ["x_size", "x_ptr", "x_size_"]),
    ("min: InOut[f32], ld: i32, add: i32, add_: i32", ["min_ptr", "min_size", "ld_", "add_", "add__"]),
    ("x: InOut[f32], a_: i32, k_param_2: i32", ["x_ptr", "x_size", "a_", "k_param_2"]),
    ("k_param_1: InOut[f32], k_param_0: i32", ["k_param_1_ptr", "k_param_1_size", "k_param_0"]),
    ("x: InOut[f32], k: i32, k_tile: i32", ["x_ptr", "x_size", "k_", "k_tile_"]),
    ("x: InOut[f32], _: i32, WARP_SZ: i32, __: i32", ["x_ptr", "x_size", "__", "WARP_SZ_", "___"]),
    ("x: InOut[f32], größe: i32, π: i32", ["x_ptr", "x_size", "gr_f6__df_e", "_3c0_"]),
    ("x: InOut[f32], tid: i32, reg: i32, f32_: i32, entry: i32", ["x_ptr", "x_size", "tid", "reg", "f32_", "entry"]),
]


@pytest.mark.parametrize("name", ["kaio_print", "__nv_sinf", "_", "WARP_SZ", "printf", "ret"])
def test_a_kernel_may_have_any_name(name):
    source = f"""
        @kernel
        def {name}(x: InOut[f32]):
            x[0] = math.sin(x[0])
            print(x[0])
    """
    assert kernel(source).compile("sm_90").cubin


@pytest.mark.parametrize(("params", "names"), CLASHES, ids=[c[0] for c in CLASHES])
def test_names_of_parameters_never_clash(params, names):
    scalars = [p.split(":")[0] for p in params.split(", ") if "[" not in p]
    buffer = next(p.split(":")[0] for p in params.split(", ") if "[" in p)
    source = f"""
        @kernel
        def k({params}):
            tile = shared_mem(4, i32)
            tile[thread_idx.x] = 7
            bar_sync()
            {buffer}[0] = tile[0] + {" + ".join(f"{10**n} * {s}" for n, s in enumerate(scalars))}
    """
    made = kernel(source)
    program = made.compile("sm_90")  # which assembles it
    assert [name for _, name in parameters(program.ptx)] == names
    assert program.cubin


def test_the_entry_has_the_kernels_name_whatever_it_is():
    for name, entry in (("mul", "mul"), ("_", "_"), ("x", "x"), ("größe", "gr_f6__df_e"), ("sin", "sin")):
        if name == "_":
            continue  # no name in PTX either
        program = kernel(f"@kernel\ndef {name}(x: InOut[f32]):\n    x[0] = math.sin(x[1])\n").compile("sm_90")
        assert f".visible .entry {entry}(" in program.ptx
        assert program.name == entry


def test_shared_arrays_have_their_names_and_their_alignment():
    made = kernel("""
        def part(x, n):
            tile = shared_mem(3, u8)
            tile[thread_idx.x] = u8(x[n])
            bar_sync()
            return tile[thread_idx.x - 1]

        @kernel
        def k(x: InOut[f32]):
            tile = shared_mem((2, 5), f32)
            tile_1 = shared_mem(2, f64)
            größe = shared_mem(1, bool_)
            t = thread_idx.x
            größe[t] = x[t] > 0
            tile_1[t] = x[t]
            tile[1, t] = x[t]
            bar_sync()
            x[0] = tile[0, t - 1] + part(x, 1) + part(x, 2) + tile_1[t - 1] + f32(größe[t - 1])
    """)
    program = made.compile("sm_90")
    arrays = re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]", program.ptx)
    assert {(name, int(size)) for _, name, size in arrays} == {
        ("k_tile", 40),
        ("k_tile_1", 16),
        ("k_gr_f6__df_e", 1),
        ("k_tile_2", 3),
        ("k_tile_3", 3),
    }
    assert {align for align, _, _ in arrays} == {"16"}
    assert program.shared_nbytes == 40 + 8 + 16 + 16 + 16 + 3


@pytest.mark.parametrize("file", ["/tmp/jürgen/x.py", '/a"b/x.py', "/a\nb/x.py", "C:\\x\\y.py", "/日本/x.py"])
def test_any_file_name_assembles(file):
    source = "@kernel\ndef k(x: InOut[f32]):\n    x[0] = 1\n"
    assert kernel(source, file).compile("sm_90").cubin


# ---------------------------------------------------------------------- places
def test_lines_point_at_the_users_file():
    made = kernel(
        """
        def twice(v):
            w = v * 3
            return w - 1

        @kernel
        def k(x: InOut[f32]):
            a = x[0]
            b = x[1]
            x[2] = twice(a)
            x[3] = a / b
        """,
        "/tmp/somewhere/places.py",
    )
    ptx = made.ptx("sm_90")
    assert '.file\t1 "/tmp/somewhere/places.py"' in ptx
    lines = ptx.splitlines()

    def line_of(pattern: str) -> int:
        at = next(k for k, line in enumerate(lines) if re.search(pattern, line))
        return int(re.match(r"\s*\.loc\s+1 (\d+)", next(x for x in reversed(lines[:at]) if ".loc" in x))[1])

    assert line_of("mul.rn.f32") == 3
    assert line_of(r"add.rn.f32|sub.rn.f32") == 4
    assert line_of("div.rn.f32") == 11
    assert line_of(r"st.global.f32.*\+12") == 11
    assert re.search(r"\.loc\s+1 3 \d+, function_name .*inlined_at 1 10 ", ptx)


# ---------------------------------------------------------------------- memory
def test_only_in_buffers_load_through_the_read_only_path():
    made = kernel("""
        @kernel
        def k(a: In[i32], b: InOut[i32], c: Out[i32]):
            i = grid(1)
            c[i] = a[i] + b[i]
            c[i] = c[i] + 1
    """)
    ptx = made.ptx("sm_90")
    assert opcodes(ptx).count("ld.global.nc.u32") == 1
    assert opcodes(ptx).count("ld.global.u32") == 1  # of b; c holds what was just stored
    assert "ld.global.nc" not in kernel("@kernel\ndef k(a: InOut[f32]):\n    a[0] = a[1]\n").ptx("sm_90")


def test_a_local_array_with_constant_indices_lives_in_registers():
    made = kernel("""
        @kernel
        def k(x: InOut[f32]):
            mine = local_mem((2, 2), f32)
            for r in range(2):
                for c in range(2):
                    mine[r, c] = x[2 * r + c]
            x[0] = mine[1, 0] + mine[0, -1]
    """)
    assert ".local" not in made.ptx("sm_90")


def test_a_local_array_with_an_index_at_run_time_is_local_memory():
    made = kernel("""
        @kernel
        def k(x: InOut[f32], n: i32):
            mine = local_mem(8, f32)
            for k in range(8):
                mine[k] = x[k]
            x[0] = mine[n]
    """)
    assert re.search(r"\.local \.align \d+ \.b8\s+__local_depot0\[32\]", made.ptx("sm_90"))


def test_a_guarded_index_costs_no_wrap_around():
    ptx = of("""
        i = grid(1)
        if i < x.size:
            x[i] = x[x.size - 1 - i] + y[-1]
    """)
    assert not {"selp", "shr", "cvt.s64.s32", "and.b32"} & {op.split(".f")[0] for op in opcodes(ptx)}


ATOMICS = [("i32", "u32"), ("u32", "u32"), ("i64", "u64"), ("u64", "u64"), ("f32", "f32"), ("f64", "f64")]


@pytest.mark.parametrize(("dtype", "ptx_type"), ATOMICS, ids=[a[0] for a in ATOMICS])
def test_atomics_are_one_instruction(dtype, ptx_type):
    made = kernel(f"""
        @kernel
        def k(x: InOut[{dtype}], y: InOut[{dtype}, D2], v: {dtype}, old: Out[{dtype}]):
            s = shared_mem(4, {dtype})
            s[thread_idx.x] = 0
            bar_sync()
            atomic_add(x, 0, v)
            old[0] = atomic_add(y, (1, 2), v)
            atomic_add(s, thread_idx.y, v)
            old[1] = atomic_add(s, 1, v)
            bar_sync()
            old[2] = s[0]
    """)
    assert [op for op in opcodes(made.ptx("sm_90")) if op.startswith(("atom", "red"))] == [
        f"red.global.add.{ptx_type}",
        f"atom.global.add.{ptx_type}",
        f"red.shared.add.{ptx_type}",
        f"atom.shared.add.{ptx_type}",
    ]


# ---------------------------------------------------------------------- directives
def test_launch_bounds_and_registers_are_directives():
    ptx = kernel("@kernel(launch_bounds=128, max_registers=40)\ndef k(x: InOut[f32]):\n    x[0] = 1\n").ptx("sm_90")
    check(ptx, "CHECK: .maxntid 128, 1, 1\nCHECK-NEXT: .maxnreg 40")
    plain = kernel("@kernel\ndef k(x: InOut[f32]):\n    x[0] = 1\n").ptx("sm_90")
    assert ".maxn" not in plain


# ---------------------------------------------------------------------- arithmetic
def test_an_f32_kernel_holds_no_f64():
    ptx = of("""
        i = grid(1)
        v = x[i] * 0.1 + 2
        w = n / 3
        v = v if v > 0.5 else 1.5
        for k in range(n):
            v += k * 0.25
        x[i] = v + w ** 2 + math.sqrt(v) + abs(v) + math.exp(v) + v // 2 + v % 3 + int(v) + round(v)
        y[i] = (v < n) + float(n) + math.pi
    """)
    assert not re.search(r"\.f64|%fd", ptx)


FUSED = [
    ("x[0] = a * b + c", ["fma.rn.f32"]),
    ("x[0] = c + a * b", ["fma.rn.f32"]),
    ("x[0] = a * b - c", ["neg.f32", "fma.rn.f32"]),
    ("x[0] = c - a * b", ["neg.f32", "fma.rn.f32"]),
    ("x[0] = a * b + b * c", ["mul.rn.f32", "fma.rn.f32"]),
    ("x[0] += a * b", ["fma.rn.f32"]),
    ("x[0] -= a * b", ["neg.f32", "fma.rn.f32"]),
    ("x[0] = (a * b) + c", ["fma.rn.f32"]),
    ("x[0] = a * b * c + a", ["mul.rn.f32", "fma.rn.f32"]),
    ("x[0] = a * b + c + a * c", ["fma.rn.f32", "fma.rn.f32"]),
    ("x[0] = n * a + c", ["fma.rn.f32"]),
    ("x[0] = 2 * a + 1", ["fma.rn.f32"]),
    ("x[0] = (a * b if n > 0 else b * c) + c", ["mul.rn.f32", "add.rn.f32"]),
    ("p = a * b\nx[0] = p + c", ["mul.rn.f32", "add.rn.f32"]),
    ("p = (a * b)\nx[0] = c - p", ["mul.rn.f32", "sub.rn.f32"]),
    ("x[0] = abs(a * b) + c", ["mul.rn.f32", "add.rn.f32"]),
    ("x[0] = f32(a * b) + c", ["mul.rn.f32", "add.rn.f32"]),
    ("x[0] = -(a * b) + c", ["mul.rn.f32", "sub.rn.f32"]),
    ("x[0] = a ** 2 + c", ["mul.rn.f32", "add.rn.f32"]),
    ("x[0] = a / b + c", ["div.rn.f32", "add.rn.f32"]),
    ("y[0] = a * b\nx[0] = y[0] + c", ["mul.rn.f32", "add.rn.f32"]),
    ("v = c\nv += a * b\nx[0] = v", ["fma.rn.f32"]),
    ("v = a\nv *= b\nv += c\nx[0] = v", ["mul.rn.f32", "add.rn.f32"]),
    ("x[0], y[0] = a * b, a * b + c", ["mul.rn.f32", "fma.rn.f32"]),
]


@pytest.mark.parametrize(("text", "wanted"), FUSED, ids=[t[0] for t in FUSED])
def test_a_product_fuses_in_the_expression_that_adds_it_and_nowhere_else(text, wanted):
    assert arithmetic(of(text)) == wanted


@pytest.mark.parametrize(("text", "wanted"), FUSED, ids=[t[0] for t in FUSED])
def test_the_newer_back_end_fuses_the_same(text, wanted):
    def rounding(ops):
        return sorted(op.replace("sub", "add") for op in ops if not op.startswith("neg"))

    assert rounding(arithmetic(of(text, "sm_100"))) == rounding(wanted)


@pytest.mark.parametrize("text", [t[0] for t in FUSED])
def test_without_contraction_nothing_fuses(text):
    assert "fma.rn.f32" not in arithmetic(of(text, contract=False))


def test_the_left_product_of_two_fuses():
    ptx = of("x[0] = x[1] * x[2] + x[3] * x[4]")
    check(
        ptx,
        """
        CHECK: ld.global.f32 {{%f1}}, {{.*}}+4
        CHECK: ld.global.f32 {{%f2}}, {{.*}}+8
        CHECK: ld.global.f32 {{%f3}}, {{.*}}+12
        CHECK: ld.global.f32 {{%f4}}, {{.*}}+16
        CHECK: mul.rn.f32 %f5, %f3, %f4
        CHECK: fma.rn.f32 %f6, %f1, %f2, %f5
        """,
    )


def test_a_product_of_a_device_function_is_not_fused_by_its_caller():
    made = kernel("""
        def product(p, q):
            return p * q

        @kernel
        def k(x: InOut[f32]):
            x[0] = product(x[1], x[2]) + x[3]
    """)
    assert arithmetic(made.ptx("sm_90")) == ["mul.rn.f32", "add.rn.f32"]


def test_fma_is_fused_whatever_contract_says():
    assert arithmetic(of("x[0] = fma(a, b, c)", contract=False)) == ["fma.rn.f32"]


LIBRARY = """
    v = x[0] * 3 + 1
    v += math.sin(v) * math.cos(v) - math.tan(v) + math.exp(v) * math.log(v) + math.pow(v, c)
    v += math.erf(v) + math.lgamma(v) + math.tanh(v) + math.atan2(v, c) + v ** c + v // c + v % c + math.cbrt(v)
    x[0] = v / c
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("contract", [True, False])
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_every_float_operation_says_how_it_rounds(dtype, contract, target):
    source = f"@kernel(contract={contract})\ndef k(x: InOut[{dtype}], c: {dtype}):{LIBRARY}"
    ptx = kernel(source).ptx(target)
    ops = set(re.findall(r"\b(?:add|sub|mul|fma|div|sqrt|rcp)\.[\w.]*f(?:32|64)\b", ptx))
    assert {op for op in ops if not re.search(r"\.(rn|rz|rm|rp|approx)\b", op)} == set()
    assert any(".rn" in op for op in ops)


def test_fastmath_approximates_flushes_and_isnan_still_works():
    made = kernel("""
        @kernel(fastmath=True)
        def k(x: InOut[f32], nan: Out[bool_], inf: Out[bool_], a: f32):
            i = grid(1)
            nan[i] = math.isnan(x[i])
            inf[i] = math.isinf(x[i])
            x[i] = a / x[i] + math.sqrt(x[i]) * x[i] - abs(x[i])
    """)
    ptx = made.ptx("sm_90")
    assert {op for op in opcodes(ptx) if re.search(r"(div|sqrt|fma|abs|sub|add|mul|neg)\..*f32", op)} == {
        "div.full.ftz.f32",
        "sqrt.approx.ftz.f32",
        "fma.rn.ftz.f32",
        "abs.ftz.f32",
        "sub.rn.ftz.f32",
    }
    check(ptx, "CHECK: setp.gt.{{[su]}}32 {{.*}}, 2139095040;\nCHECK: setp.eq.s32 {{.*}}, 2139095040;")


MEANINGS = [
    ("x[0] = f32(i32(a))", ["cvt.rzi.s32.f32"]),
    ("x[0] = min(a, b)", ["min.f32"]),
    ("x[0] = max(a, b)", ["max.f32"]),
    ("x[0] = n // 8", ["shr.s32"]),
    ("x[0] = n % 8", ["and.b32"]),
    ("x[0] = math.sqrt(a)", ["sqrt.rn.f32"]),
    ("x[0] = abs(a)", ["abs.f32"]),
    ("x[0] = math.floor(a)", ["cvt.rmi.f32.f32"]),
    ("x[0] = math.ceil(a)", ["cvt.rpi.f32.f32"]),
    ("x[0] = math.trunc(a)", ["cvt.rzi.f32.f32"]),
    ("x[0] = round(a)", ["cvt.rni.f32.f32"]),
    ("x[0] = n << 3", ["shl.b32"]),
]


@pytest.mark.parametrize(("text", "wanted"), MEANINGS, ids=[m[0] for m in MEANINGS])
def test_what_the_hardware_has_is_one_instruction(text, wanted):
    ignored = ("ld.param", "st.global", "cvt.rn.f32", "ret", "mov")
    assert [op for op in opcodes(of(text)) if not op.startswith(ignored)] == wanted
