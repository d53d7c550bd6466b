"""Kernels at the edges of what a compiler takes: deep, large, oddly named, captured and changed."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import CompileError, KernelFault, KernelSyntaxError, KernelTypeError, i32
from tests.dsl.from_text import kernel, namespace

HEAD = "@kernel\ndef k(o: InOut[i32]):\n"


def launched(made: kaio.Kernel, *args: object, size: int = 8) -> list[int]:
    device = kaio.Device("cpu")
    buffer = device.alloc_from(np.arange(size, dtype=np.int32))
    made.grid(1).block(1).launch(buffer, *args).wait(60)
    return list(buffer.to_host().tolist())


def test_an_expression_of_900_terms_compiles():
    assert launched(kernel(HEAD + "    o[0] = " + "+".join(["o[1]"] * 900)))[0] == 900


def test_a_chain_of_200_conditions_compiles():
    chain = "".join(f"    elif o[1] == {i}: o[0] = {i}\n" for i in range(2, 200))
    assert launched(kernel(f"{HEAD}    if o[1] == 0: o[0] = 7\n    elif o[1] == 1: o[0] = 9\n{chain}"))[0] == 9


def test_device_functions_that_multiply_beyond_measure_are_refused():
    functions = "".join(f"def f{i}(x): return f{i - 1}(x) + f{i - 1}(x + 1)\n" for i in range(1, 14))
    source = "def f0(x): return x + 1\n" + functions + HEAD + "    o[0] = f13(o[0])\n"
    with pytest.raises(CompileError, match="grows beyond 100000 statements with its device functions in place"):
        kernel(source).ptx("sm_90")


@pytest.mark.parametrize("name", ["_", "WARP_SZ", "__", "min", "größe"])
def test_a_kernel_of_any_name_assembles(name):
    space = namespace(f"@kernel\ndef {name}(o: InOut[i32]):\n    o[0] = 1\n")
    assert space[name].compile("sm_90").cubin.startswith(b"\x7fELF")


def test_local_memory_beyond_a_thread_s_is_refused_with_the_sizes():
    made = kernel(
        "@kernel\ndef k(o: InOut[i32], n: Const[int]):\n    a = local_mem(n, i32)\n    a[0] = 1\n    o[0] = a[0]\n"
    )
    assert launched(made, 1000)[0] == 1
    with pytest.raises(KernelTypeError, match="40000000 bytes of each thread's own memory, and a thread has 524288"):
        launched(made, 10_000_000)


@pytest.mark.parametrize(
    ("index", "reported"),
    [("-9", -9), ("n", 2**32 - 1), ("kaio.u64(n) << 32", (2**32 - 1) << 32), ("i32(n)", -1)],
)
def test_an_index_is_reported_as_the_source_has_it(index, reported):
    made = kernel(f"@kernel\ndef k(o: InOut[i32], n: u32):\n    o[{index}] = 1\n")
    with pytest.raises(KernelFault, match=rf"index {reported} is out of range for axis 0 of `o` \(size 8\)"):
        launched(made, 2**32 - 1)


def test_sums_of_bools_are_refused_though_python_folds_them():
    with pytest.raises(KernelSyntaxError, match=r"`bool \+ bool`"):
        kernel(HEAD + "    o[0] = True + True\n")


def test_a_negative_power_of_literals_is_python_s_number():
    source = "@kernel\ndef k(o: InOut[f32]):\n    o[0] = 10 ** -3\n"
    device = kaio.Device("cpu")
    buffer = device.alloc_zeros(1, kaio.f32)
    kernel(source).grid(1).block(1).launch(buffer).wait()
    assert buffer.to_host().tolist() == [np.float32(1e-3)]


def test_a_method_is_refused_by_its_name():
    source = "class C:\n    v = 7\n    def f(self, a): return a * self.v\nc = C()\n" + HEAD + "    o[0] = c.f(3)\n"
    with pytest.raises(KernelTypeError, match="it is a method; call a function, and give it what it needs of `c`"):
        kernel(source).ptx("sm_90")


def test_names_private_to_a_class_are_those_of_the_class():
    source = "class C:\n    __x = 4\n    @kernel\n    def k(o: InOut[i32]):\n        o[0] = C.__x\n"
    assert launched(namespace(source)["C"].k)[0] == 4


def test_changed_defaults_and_shadowed_builtins_are_seen_by_the_next_launch():
    space = namespace("def f(x, d=3): return x + d\n" + HEAD + "    o[0] = f(0) + min(3, 4)\n")
    made = space["k"]
    assert launched(made)[0] == 6
    space["f"].__defaults__ = (8,)
    assert launched(made)[0] == 11
    space["min"] = space["f"]
    assert launched(made)[0] == 8 + 7


def test_a_global_that_is_gone_is_named():
    space = namespace("G = 2\n" + HEAD + "    o[0] = G\n")
    assert launched(space["k"])[0] == 2
    del space["G"]
    with pytest.raises(KernelSyntaxError, match="`G` is not defined any more"):
        launched(space["k"])


def test_messages_of_atomics_speak_of_the_user_s_names():
    with pytest.raises(KernelTypeError, match="`o` has 1 dimension, and 2 indices were given"):
        kernel(HEAD + "    atomic_add(o, (0, 1), 3)\n").ptx("sm_90")
    with pytest.raises(KernelTypeError, match=r"`kaio.i32\(0.5\)`"):
        kernel(HEAD + "    atomic_add(o, 0, 0.5)\n").ptx("sm_90")


def test_types_are_found_once_for_both_machines():
    made = kernel(HEAD + "    o[0] = 1\n")
    assert made.stages("cpu")["types"] is made.stages("sm_90")["types"]
    assert i32 is made.stages("cpu")["types"].types["o"].dtype  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "expression",
    [
        "10 ** 2147483648",
        "1 << 4000000000",
        "9 ** 9 ** 9",
        "BIG ** BIG",
        "C ** C",
        "10.0 ** 99999",
        "10**1000 * 10**1000",
    ],
)
def test_constants_that_no_type_holds_are_refused_before_they_are_computed(expression):
    body = f"    if {expression} > 3:\n        y[0] = 1\n    y[0] = {expression}"
    made = kernel(f"@kernel\ndef k(y: Out[i32], C: Const[int]):\n{body}", BIG=10**9)
    with pytest.raises(kaio.KernelTypeError, match="the result is too large for any type of kaio"):
        made.types("cpu", C=10**9)
