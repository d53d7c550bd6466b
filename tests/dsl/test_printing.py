"""`print` in a kernel: the text that Python prints, on both devices, in `sys.stdout`."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pytest

import kaio
from kaio import (
    Const,
    In,
    InOut,
    Out,
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
from kaio import print_abi as abi
from tests.dsl import from_text
from tests.refusals import first_mistake

GREETING = "hello"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kaio.__file__).parents[1])}
T = TypeVar("T", bool_, i8, u8, i16, u16, i32, u32, i64, u64, f32, f64)


def printed(capsys: pytest.CaptureFixture[str], kernel: kaio.Kernel, device: kaio.Device, *args, threads: int = 1):
    """What a launch prints; arrays go in as buffers."""
    given = [device.alloc_from(a) if isinstance(a, np.ndarray) else a for a in args]
    capsys.readouterr()
    kernel.over(threads).block(threads).on(device).launch(*given).wait()
    return capsys.readouterr().out


# ---------------------------------------------------------------------- values
@kaio.kernel
def show(b: In[bool_], u: In[u64], f: In[f32]):
    i = kaio.grid(1)
    if i == 0:
        print("b", b[0], "u", u[0], "f", f[0], "n", -1)


def test_a_line_is_what_python_prints(capsys, device: kaio.Device) -> None:
    arrays = np.array([True]), np.array([2**64 - 1], np.uint64), np.array([0.1], np.float32)
    assert printed(capsys, show, device, *arrays) == "b True u 18446744073709551615 f 0.1 n -1\n"


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (bool_, [True, False], "True False"),
        (i8, [-128, 127], "-128 127"),
        (u8, [255, 0], "255 0"),
        (i16, [-(2**15), 2**15 - 1], "-32768 32767"),
        (u16, [65535, 1], "65535 1"),
        (i32, [-(2**31), 2**31 - 1], "-2147483648 2147483647"),
        (u32, [2**32 - 1, 0], "4294967295 0"),
        (i64, [-(2**63), 2**63 - 1], "-9223372036854775808 9223372036854775807"),
        (u64, [2**64 - 1, 2**63], "18446744073709551615 9223372036854775808"),
        (f32, [0.1, 1e16], "0.1 1e+16"),
        (f32, [1 / 3, 16777216], "0.33333334 16777216.0"),
        (f32, [math.nan, -math.inf], "nan -inf"),
        (f32, [-0.0, 1e-45], "-0.0 1e-45"),
        (f64, [0.1, 1e22], "0.1 1e+22"),
        (f64, [math.inf, 5e-324], "inf 5e-324"),
        (f64, [1 / 3, 123456789.0], "0.3333333333333333 123456789.0"),
    ],
)
def test_every_number_is_printed_as_python_prints_it(capsys, device: kaio.Device, dtype, values, expected) -> None:
    @kaio.kernel
    def two(x: In[T]):
        print(x[0], x[1])

    assert printed(capsys, two, device, np.array(values, dtype.numpy)) == f"{expected}\n"


class Point(NamedTuple):
    x: float
    y: int


@dataclasses.dataclass(frozen=True)
class Span:
    start: i32
    width: f32


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


@kaio.kernel
def others(z: In[c64], w: In[c128], p: In[f16], q: In[bf16], r: In[f8e4m3], s: In[f8e5m2], mode: Mode):
    print(z[0], z[1], z[2], w[0], 2j, z[0] * 2)
    print(p[0], q[0], r[0], s[0], p[1], q[1], r[1], s[1], f"{q[0]:.4f}")
    print(Point(p[0], 3), Span(1, 2.5), mode, Mode.EXACT)


def test_complex_numbers_narrow_floats_records_and_enums(capsys, device: kaio.Device) -> None:
    z = np.array([0.1 + 2j, -0.0 - 1e20j, complex(math.nan, math.inf)], np.complex64)
    narrow = [np.array([0.1, -1024 * 3], dtype.numpy) for dtype in (f16, bf16)]
    narrow += [np.array([0.1, -240], dtype.numpy) for dtype in (f8e4m3, f8e5m2)]
    arrays = [z, np.array([1 / 3 - 1j]), *narrow]
    assert printed(capsys, others, device, *arrays, Mode.FAST).splitlines() == [
        "(0.1+2j) (-0-1e+20j) (nan+infj) (0.3333333333333333-1j) 2j (0.2+4j)",
        "0.1 0.1 0.1 0.09 -3072.0 -3070.0 -240.0 -260.0 0.1001",
        "Point(x=0.1, y=3) Span(start=1, width=2.5) Mode.FAST Mode.EXACT",
    ]


def test_literals_texts_and_tuples(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def several(x: In[f32], scale: Const[float]):
        print(GREETING, 1, -2.5, math.pi, True, None, scale, 10**12)
        print((1, x[0]), ("a", (x[0],)), (kaio.grid(1), True))
        print(2 if x[0] > 0 else 3, 0.5 if x[0] > 1 else 0.25)
        print()
        print(x.size, x.shape)

    assert printed(capsys, several, device, np.array([1.5], np.float32), 0.125).splitlines() == [
        "hello 1 -2.5 3.141592653589793 True None 0.125 1000000000000",
        "(1, 1.5) ('a', (1.5,)) (0, True)",
        "2 0.5",
        "",
        "1 (1,)",
    ]


def test_sep_and_end(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def joined(x: In[i32]):
        print(x[0], 2, 3, sep=", ", end=";")
        print(4, 5, sep="")
        print(6, x[0], end=None)

    assert printed(capsys, joined, device, np.array([1], np.int32)) == "1, 2, 3;45\n6 1\n"


def test_f_strings_format_as_python_does(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def formatted(x: In[f32], n: In[i32], b: In[bool_], u: In[u64]):
        print(f"x = {x[0]:.3f}, {n[0]:04d}|{u[0]:x}|{x[0]!r}|{n[0]:>6}|", f"{{{n[0]}}}")
        print(f"{n[0] + 1=} {GREETING:>8} {3.5:.2f} {b[0]} {x[0]:e}", f"plain", f"")  # noqa: F541
        for k in range(2):
            if b[0]:
                print(f"{k}")
            else:
                print(f"{n[0]}")
        while n[0] < 0:
            print(f"{x[0]:8.1f}")
            break

    arrays = np.array([0.1], np.float32), np.array([-7], np.int32), np.array([True]), np.array([255], np.uint64)
    assert printed(capsys, formatted, device, *arrays).splitlines() == [
        "x = 0.100, -007|ff|0.1|    -7| {-7}",
        "n[0] + 1=-6    hello 3.50 True 1.000000e-01 plain ",
        "0",
        "1",
        "     0.1",
    ]


def test_conversions_make_texts_which_formats_pad_and_cut(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def converted(x: In[f32], n: In[i32], mode: Mode):
        print(f"{n[0]!r:>5}|{x[0]!r:>8}|{x[0]!s:.2}|{n[0]!a:05}|{n[0] > 0!r:>6}|{GREETING!r}|{GREETING!r:>9}")
        print(f"{mode!r}|{mode:>12}|{mode!r:>18}|{Mode.EXACT!r}|{GREETING=}", (mode, Mode.EXACT), Point(x[0], 3))

    n, x, mode = 7, 0.1, Mode.FAST
    assert printed(capsys, converted, device, np.array([x], np.float32), np.array([n], np.int32), mode) == (
        f"{n!r:>5}|{x!r:>8}|{x!s:.2}|{n!a:05}|{n > 0!r:>6}|{GREETING!r}|{GREETING!r:>9}\n"
        f"{mode!r}|{mode:>12}|{mode!r:>18}|{Mode.EXACT!r}|{GREETING=} {(mode, Mode.EXACT)} {Point(x, 3)}\n"
    )


@pytest.mark.parametrize("spec", [">8", "+", "x<12", "010", ",", "z", "=+12"])
def test_a_format_without_digits_has_the_fewest_that_tell_a_float(capsys, device: kaio.Device, spec: str) -> None:
    made = from_text.kernel(f"""
        @kernel
        def k(x: In[f32], y: In[f16], z: In[c64]):
            print(f"{{x[0]:{spec}}} {{y[0]:{spec}}} {{x[1]:{spec}}}", f"{{z[0]:>12}}")
    """)
    x, y, z = np.array([0.1, 1e20], np.float32), np.array([0.1], np.float16), np.array([0.1 + 2j], np.complex64)
    expected = f"{format(0.1, spec)} {format(0.1, spec)} {format(1e20, spec)} {0.1 + 2j:>12}\n"
    assert printed(capsys, made, device, x, y, z) == expected


def test_a_number_that_is_no_character_is_printed_as_unicode_says(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def characters(n: In[i32]):
        for k in range(n.size):
            print(f"{n[k]:c}", end="")

    n = np.array([97, -1, 0xD800, 0x10FFFF, 0x110000, 2**31 - 1, 98], np.int32)
    assert printed(capsys, characters, device, n) == "a\ufffd\ufffd\U0010ffff\ufffd\ufffdb"


@pytest.mark.parametrize("count", [8, 14, 15, 31, 100])
def test_an_f_string_of_many_values_is_printed(capsys, device: kaio.Device, count: int) -> None:
    shown = " ".join(f"{{n[{k}]:03d}}-{{n[{k}]}}" for k in range(count))
    made = from_text.kernel(f"@kernel\ndef k(n: In[i32]):\n    print(f'{shown}')\n")
    n = np.arange(count, dtype=np.int32)
    assert printed(capsys, made, device, n) == " ".join(f"{k:03d}-{k}" for k in n) + "\n"


def show_pair(a, b):
    print(f"{a} and {b}")


def test_a_device_function_prints(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def calls(x: In[i32]):
        show_pair(x[0], 2.5)
        show_pair(1, x[0])

    assert printed(capsys, calls, device, np.array([7], np.int32)) == "7 and 2.5\n1 and 7\n"


# ---------------------------------------------------------------------- many threads
@kaio.kernel
def numbered(n: i32):
    i = kaio.grid(1)
    if i < n:
        print("thread", i, i * 2)


def test_every_thread_prints_its_line_whole(capsys, device: kaio.Device) -> None:
    numbered.over(5000).on(device).launch(5000).wait()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"thread {i} {2 * i}" for i in range(5000))


def test_threads_that_wait_for_each_other_print(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def phases(x: InOut[i32]):
        t = kaio.thread_idx.x
        print("before", t)
        kaio.bar_sync()
        print("after", t)

    lines = printed(capsys, phases, device, np.zeros(1, np.int32), threads=64).splitlines()
    assert sorted(lines[:64]) == sorted(f"before {t}" for t in range(64))
    assert sorted(lines[64:]) == sorted(f"after {t}" for t in range(64))


@kaio.kernel
def count_to(n: i32):
    for k in range(n):
        print(k)


def test_lines_that_find_no_room_are_counted(capsys, device: kaio.Device) -> None:
    fit = abi.CAPACITY // 2
    assert device.wait() is None
    capsys.readouterr()
    count_to.over(1).block(1).on(device).launch(fit + 7).wait()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:fit] == [str(k) for k in range(fit)]
    assert lines[fit:] == ["(7 more were dropped: a device keeps 4 MiB of lines)"]
    count_to.over(1).block(1).on(device).launch(2).wait()
    assert capsys.readouterr().out == "0\n1\n"


def test_several_kernels_print_in_the_order_of_their_launches(capsys, device: kaio.Device) -> None:
    for n in (1, 3, 2):
        count_to.over(1).block(1).on(device).launch(n)
        numbered.over(1).block(1).on(device).launch(1)
    device.wait()
    expected = ["0", "thread 0 0", "0", "1", "2", "thread 0 0", "0", "1", "thread 0 0"]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("wait", [lambda d, done: d.wait(), lambda d, done: done.result(), lambda d, done: done.wait()])
def test_lines_are_there_after_any_wait(capsys, device: kaio.Device, wait) -> None:
    wait(device, count_to.over(1).block(1).on(device).launch(1))
    assert capsys.readouterr().out == "0\n"


def test_lines_are_there_after_reading_a_buffer(capsys, device: kaio.Device) -> None:
    @kaio.kernel
    def fill(out: Out[i32]):
        out[0] = 5
        print("filled")

    out = device.alloc_zeros(1, i32)
    fill.over(1).block(1).launch(out)
    assert out.to_host()[0] == 5
    assert capsys.readouterr().out == "filled\n"


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_lines_are_printed_when_the_program_ends_behind_the_launch(tmp_path: Path, name: str) -> None:
    program = tmp_path / "program.py"
    text = """
        import kaio

        @kaio.kernel
        def late(n: kaio.i32):
            print("last words", n)

        late.over(1).block(1).on(kaio.Device(NAME)).launch(3)
    """
    program.write_text(textwrap.dedent(text).replace("NAME", repr(name)))
    command = [sys.executable, str(program)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT, check=False)
    assert (found.stdout, found.stderr) == ("last words 3\n", "")


def test_what_was_printed_before_a_fault_is_shown(capsys) -> None:
    @kaio.kernel
    def failing(n: i32):
        print("n is", n)
        assert n < 3

    with pytest.raises(kaio.KernelFault):
        failing.over(1).block(1).on(kaio.Device("cpu")).launch(5).wait()
    assert capsys.readouterr().out == "n is 5\n"


def test_a_standard_output_that_fails_does_not_fail_the_launch(monkeypatch, caplog) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise OSError("no space")

    monkeypatch.setattr(sys, "stdout", Broken())
    count_to.over(1).block(1).on(kaio.Device("cpu")).launch(1).wait()
    monkeypatch.undo()
    assert "what a kernel printed cannot be written" in caplog.text


def test_a_standard_output_that_waits_for_the_stream_it_holds_up_does_not_hang(monkeypatch, caplog) -> None:
    cpu = kaio.Device("cpu")

    class Launching:
        def write(self, text: str) -> None:
            count_to.over(1).block(1).on(cpu).launch(0).wait()

    monkeypatch.setattr(sys, "stdout", Launching())
    count_to.over(1).block(1).on(cpu).launch(1).wait(timeout_s=60)
    monkeypatch.undo()
    cpu.wait()
    assert "waits for work on its own stream" in caplog.text


# ---------------------------------------------------------------------- code
def test_a_kernel_without_print_has_nothing_of_it() -> None:
    @kaio.kernel
    def plain(out: Out[i32]):
        out[0] = 1

    assert "kaio_print" not in plain.ptx("sm_90")
    assert plain.compile("sm_90").prints == plain.compile("cpu").prints == ()


@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_100"])
def test_the_assembler_takes_it(target: str) -> None:
    assert show.compile(target).cubin


# ---------------------------------------------------------------------- mistakes
def test_a_whole_buffer_is_refused() -> None:
    @kaio.kernel
    def whole(x: In[f32]):
        print("x", x)

    assert first_mistake(whole) == (
        "`print` shows numbers and texts, not In[f32]\n"
        "print its elements one by one, or the buffer after the launch: `print(x.to_host())`"
    )


def test_a_function_is_refused() -> None:
    @kaio.kernel
    def function():
        print(show_pair)

    assert first_mistake(function) == (
        "`print` shows numbers and texts, not `show_pair`\nprint the numbers it is made of"
    )


def test_a_format_that_python_refuses_is_refused() -> None:
    @kaio.kernel
    def bad(x: In[f32]):
        print(f"{x[0]:d}")

    assert first_mistake(bad) == (
        "`d` does not format f32: Unknown format code 'd' for object of type 'float'\n"
        "for example `{x:8.3f}` or `{i:04d}`"
    )


def test_a_tuple_is_not_formatted() -> None:
    @kaio.kernel
    def pair(x: In[f32]):
        print(f"{(x[0], 1):>9}")

    assert first_mistake(pair) == "`>9` does not format (f32, int literal 1)\nformat its numbers one by one"


def test_a_format_of_numbers_does_not_format_what_a_conversion_gives() -> None:
    @kaio.kernel
    def text(n: In[i32]):
        print(f"{n[0]!r:d}")

    assert first_mistake(text).startswith("`d` does not format i32: Unknown format code 'd' for object of type 'str'")


def test_names_and_formats_in_f_strings_are_checked() -> None:
    with pytest.raises(kaio.KernelSyntaxError) as caught:

        @kaio.kernel
        def unknown(x: In[f32], width: i32):
            print(f"{wrong}")  # noqa: F821
            print(f"{x[0]:{width}}")

    assert [mistake.what for mistake in caught.value.mistakes] == [
        "there is no `wrong` here",
        "the format of `{x[0]:{width}}` is not known when compiling",
    ]


def test_a_separator_is_a_text() -> None:
    @kaio.kernel
    def separated(x: In[f32]):
        print(1, 2, sep=x[0])

    assert first_mistake(separated) == '`sep=` of `print` is a text, not f32\nfor example `sep=", "`'


def test_a_file_is_refused() -> None:
    @kaio.kernel
    def filed():
        print(1, file=2)

    assert first_mistake(filed).splitlines()[0] == (
        "`print(*values, sep=None, end=None)`: there is no parameter `file`"
    )
