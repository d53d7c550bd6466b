"""The stages in order, each a frozen value that prints; what a compiled kernel carries; errors of all of it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import kaio
from kaio import f32, f64, i32
from kaio.dsl.compiler import pipeline
from kaio.dsl.compiler.pipeline import CompileOptions, compile_cuda, compile_host, read
from kaio.program import Build, CudaProgram, HostProgram
from tests.dsl.from_text import kernel, namespace, run

SAMPLE = """
SCALE = 3

def helper(v):
    return v * SCALE

@kernel
def sample(x: InOut[f32], n: i32, flag: Const[bool] = True):
    i = grid(1)
    if i < n and flag:
        x[i] = helper(x[i]) + math.sin(x[i])
"""


def front():
    return read(namespace(SAMPLE)["sample"].__wrapped__)


def specialised(made, **consts):
    return made.signature.specialise(consts or {"flag": True}, {}, 32)


# ---------------------------------------------------------------------- stages
def test_the_stages_are_named_in_order_and_print():
    made = front()
    cuda = compile_cuda(made, specialised(made), CompileOptions(), "sm_90")
    host = compile_host(made, specialised(made), CompileOptions(), Build("bounds"))
    assert list(cuda.stages) == ["source", "signature", "ir", "types", "llvm", "ptx"]
    assert list(host.stages) == ["source", "signature", "ir", "types", "llvm"]
    starts = {
        "source": "sample, ",
        "signature": "sample(x: InOut[f32], n: i32, flag: Const[bool] = True)",
        "ir": "sample(x, n, flag)",
        "types": "sample(x, n, flag)",
        "llvm": "; ModuleID",
        "ptx": "// sample(",
    }
    for stages in (cuda.stages, host.stages):
        for name, value in stages.items():
            assert str(value).startswith(starts[name]), name
    assert str(cuda.stages["types"]) == str(host.stages["types"])


def test_programs_say_what_they_are():
    made = front()
    cuda = compile_cuda(made, specialised(made), CompileOptions(), "sm_90").program
    assert isinstance(cuda, CudaProgram)
    assert (cuda.name, cuda.target, cuda.index_bits, cuda.shared_nbytes) == ("sample", "sm_90", 32, 0)
    assert [str(a) for a in cuda.arguments] == ["x: InOut[f32]", "n: i32"]
    assert cuda.block.size == 16
    host = compile_host(made, specialised(made), CompileOptions(), Build("off")).program
    assert isinstance(host, HostProgram)
    assert host.arguments == cuda.arguments
    assert len(host.code) > 0


def test_everything_is_frozen():
    made = front()
    compiled = compile_cuda(made, specialised(made), CompileOptions(), "sm_90", link=False)
    assert compiled.program.cubin == b""
    for value, field in (
        (made, "source"),
        (compiled, "program"),
        (compiled.program, "ptx"),
        (CompileOptions(), "contract"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, None)


def test_a_front_prints_its_signature_and_source():
    text = str(front())
    assert text.startswith("sample(x: InOut[f32]")
    assert "x[i] = helper(x[i])" in text


# ---------------------------------------------------------------------- captures
def test_captures_know_whether_they_are_current():
    space = namespace(SAMPLE)
    made = read(space["sample"].__wrapped__)
    compiled = compile_cuda(made, specialised(made), CompileOptions(), "sm_90", link=False)
    assert {c.name for c in compiled.captures} >= {"SCALE", "helper", "math", "grid"}
    assert compiled.is_current()
    space["SCALE"] = 4
    assert not compiled.is_current()
    assert [str(c) for c in compiled.captures if not c.is_current()] == ["SCALE = 3"]
    space["SCALE"] = 3
    assert compiled.is_current()
    del space["helper"]
    assert not compiled.is_current()


def test_a_changed_global_of_a_device_function_recompiles():
    space = namespace("""
        SCALE = 3

        def helper(v):
            return v * SCALE

        @kernel
        def k(x: In[i32], o: Out[i32]):
            i = grid(1)
            if i < x.size:
                o[i] = helper(x[i])
    """)
    x = np.arange(4, dtype=np.int32)
    assert run(space["k"], [x], [i32])[0].tolist() == [0, 3, 6, 9]
    space["SCALE"] = 10
    assert run(space["k"], [x], [i32])[0].tolist() == [0, 10, 20, 30]
    space["helper"] = eval("lambda v: v - 1", {})
    with pytest.raises(kaio.KaioError):  # a function without source text
        run(space["k"], [x], [i32])


# ---------------------------------------------------------------------- specialisations
def test_constants_and_dtypes_make_specialisations():
    made = kernel("""
        @kernel
        def k(o: Out[f64], t: Const[DType], n: Const[int], s: Const[float] = 0.5):
            tile = local_mem(n, t)
            tile[n - 1] = t(s * 5)
            o[0] = tile[n - 1]
            o[1] = len(tile)
    """)
    device = kaio.Device("cpu")
    for dtype, n, s, wanted in (
        (i32, 3, 0.5, [2, 3]),
        (f64, 1, 0.1, [0.5, 1]),
        (f32, 2, 0.1, [float(np.float32(0.5)), 2]),
    ):
        out = device.alloc_zeros(2, f64)
        made.grid(1).block(1).launch(out, dtype, n, s).wait()
        assert out.to_host().tolist() == wanted
    assert "local_mem((7,), i32)" in made.types(t=i32, n=7)


def test_options_reach_the_program():
    made = front()
    options = CompileOptions(contract=False, fastmath=True, max_registers=32, launch_bounds=64)
    ptx = compile_cuda(made, specialised(made), options, "sm_90").program.ptx
    assert ".maxntid 64" in ptx
    assert ".maxnreg 32" in ptx


# ---------------------------------------------------------------------- errors
def test_static_shared_memory_above_48_kib_is_laid_into_dynamic_memory():
    source = "@kernel\ndef big(x: InOut[f32]):\n    s = shared_mem({0}, f32)\n    t = thread_idx.x\n    s[t] = x[t]\n"
    source += "    bar_sync()\n    x[t] = s[t] + s[{0} - 1 - t]\n"
    small, large = (kernel(source.format(count)).compile("sm_75") for count in (12288, 12289))
    assert (small.has_static, small.shared_nbytes, small.dynamic_start) == (True, 49152, 0)
    assert (large.has_static, large.shared_nbytes, large.dynamic_start) == (False, 49156, 49168)
    assert ".shared .align 16 .b8 big_s[49152]" in small.ptx
    assert ".extern .shared .align 16 .b8 big_shared_memory[]" in large.ptx


def test_mistakes_of_source_are_found_at_decoration_and_of_types_at_first_use():
    with pytest.raises(kaio.KernelSyntaxError):
        kernel("@kernel\ndef k(x: InOut[f32]):\n    x[0] = [1]\n")
    made = kernel("@kernel\ndef k(x: In[f32], y: Out[i32]):\n    y[0] = x[0]\n")
    for use in (made.ptx, made.types, lambda: made.compile("cpu"), made.stages):
        with pytest.raises(kaio.KernelTypeError, match="f32 is stored in i32 only with a cast"):
            use()


def test_no_error_of_numba_llvm_or_the_toolchain_comes_through():
    """What fuzzing and users met; each is a message of kaio's."""
    for body in (
        "x[0] = x",
        "x[x] = 1",
        "y = x[0][0]",
        "t = ()\n    x[0] = t[0]",
        "x[0] = x.shape",
        "y = -x.shape",
        "y = thread_idx\n    x[0] = y.x.z",
        "x[0] = kaio",
        "x[0] = None",
        "for i in x:\n        pass",
        "y = x.dtype()",
        "y = f32()",
        "y = f32(1, 2)",
        "y = math.pi()",
        "y = max()",
        "y = range(3)[0]",
    ):
        with pytest.raises(kaio.KaioError) as caught:
            kernel(f"@kernel\ndef k(x: InOut[f32]):\n    {body}\n").compile("sm_90")
        assert not isinstance(caught.value, kaio.InternalError), body
        assert caught.value.mistakes[0].place is not None, body


# ---------------------------------------------------------------------- the same every time
PRINT = """
from tests.dsl.compiler.test_emit_ptx import everything
import hashlib, kaio
made = kaio.kernel(everything)
print(hashlib.sha256(str([made.ptx("sm_90"), str(made.stages("cpu")), made.llvm("sm_90")]).encode()).hexdigest())
"""


def test_compiling_gives_the_same_text_in_every_process():
    root = Path(__file__).parents[3]
    found = [
        subprocess.run(
            [sys.executable, "-c", PRINT],
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]


def test_threads_compile_at_the_same_time():
    sources = [f"@kernel\ndef k(x: InOut[i32]):\n    for i in range({n}):\n        x[i] = i * {n}\n" for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda source: kernel(source).ptx("sm_90"), sources))
    assert len({hashlib.sha256(t.encode()).digest() for t in texts}) == 8


def test_an_expression_too_deep_for_the_compiler_is_no_fault_of_the_compiler(monkeypatch):
    def recurse(*_):
        raise RecursionError

    made = kernel("@kernel\ndef k(o: Out[i32]):\n    o[0] = 1\n", "<text>")
    monkeypatch.setattr(pipeline, "middle_of", recurse)
    with pytest.raises(kaio.CompileError) as caught:
        made.types()
    assert str(caught.value) == (
        "kernel `k` nests deeper than the compiler goes\n"
        "  <text>:2:1, in k\n"
        "      def k(o: Out[i32]):\n"
        "      ^^^^^^^^^^^^^^^^^^^\n"
        "  help: give the parts of its longest expression names"
    )
