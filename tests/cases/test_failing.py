"""`raise`, `assert` and division by zero in a kernel (B46): refused, or reported with line, block and thread."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import In, KernelFault, KernelSyntaxError, Out, i32
from tests.dsl.from_text import kernel, message


def test_b46_a_kernel_whose_body_raises_is_refused() -> None:
    with pytest.raises(KernelSyntaxError, match="a kernel cannot `raise`") as caught:

        @kaio.kernel
        def todo(x: In[i32]):
            raise NotImplementedError("write me")

    (mistake,) = caught.value.mistakes
    assert mistake.place is not None
    assert mistake.place.text.strip() == 'raise NotImplementedError("write me")'
    assert "assert condition" in str(mistake.help)


def test_b46_a_device_function_that_raises_is_refused_where_it_is_called() -> None:
    assert message("""
        def todo(v):
            raise NotImplementedError("write me")

        @kernel
        def k(x: InOut[f32]):
            x[0] = todo(x[0])
    """) == (
        "a kernel cannot `raise`\n"
        "  <text>:3:5, in todo\n"
        '          raise NotImplementedError("write me")\n'
        "          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  called from <text>:7:12, in k\n"
        '  help: write `assert condition, "text"`: it is checked on the CPU device, and on a GPU under `check="bounds"`'
    )


@kaio.func
def inverse(value):
    assert value >= 0, "negative input"
    return 10 // value


@kaio.kernel
def guard(x: In[i32], y: Out[i32]):
    i = kaio.grid(1)
    if i < x.size:
        y[i] = inverse(x[i])


def fault(values: list[int], threads: int = 2) -> str:
    cpu = kaio.Device("cpu")
    x, y = cpu.alloc_from(np.array(values, np.int32)), cpu.alloc_zeros(len(values), i32)
    with pytest.raises(KernelFault) as caught:
        guard.over(len(values)).block(threads).launch(x, y).wait()
    return str(caught.value)


def test_b46_an_assertion_in_a_function_names_text_line_block_and_thread() -> None:
    told = fault([1, 1, 1, -1])
    assert "negative input" in told
    assert "thread (1, 0, 0) of block (1, 0, 0)" in told
    assert "in inverse" in told
    assert "called from" in told


def test_b46_a_division_by_zero_names_the_line_and_the_thread() -> None:
    told = fault([1, 0, 1, 2])
    assert "zero" in told
    assert "thread (1, 0, 0) of block (0, 0, 0)" in told
    assert "return 10 // value" in told


def test_b46_the_device_works_on_after_a_fault() -> None:
    cpu = kaio.Device("cpu")
    y = cpu.alloc_zeros(2, i32)
    with pytest.raises(KernelFault):
        guard.over(2).launch(cpu.alloc_from(np.array([1, 0], np.int32)), y).wait()
    y = cpu.alloc_zeros(2, i32)
    guard.over(2).launch(cpu.alloc_from(np.array([1, 5], np.int32)), y).wait()
    assert y.to_host().tolist() == [10, 2]


def test_b46_unchecked_the_other_threads_finish(device: kaio.Device) -> None:
    x, y = device.alloc_from(np.array([1, 0, -1, 2], np.int32)), device.alloc_zeros(4, i32)
    guard.over(4).options(check="off").launch(x, y).wait()
    found = y.to_host()
    assert (found[0], found[3]) == (10, 5)


def test_b46_an_assertion_that_never_holds_is_an_assertion() -> None:
    made = kernel('@kernel\ndef k(x: InOut[f32]):\n    assert False, "not written yet"\n    x[0] = 1')
    cpu = kaio.Device("cpu")
    with pytest.raises(KernelFault, match="not written yet"):
        made.over(1).launch(cpu.alloc_zeros(1, kaio.f32)).wait()
