"""Every example runs on every device, its kernels compile to what their docstrings say, and assemble everywhere."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import kaio
from tests.filecheck import check

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100")


def load(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def kernels() -> dict[str, kaio.Kernel]:
    """Every kernel of every example, by ``example.kernel``."""
    modules = {name: vars(load(name)) for name in EXAMPLES}
    return {
        f"{example}.{name}": value
        for example, space in modules.items()
        for name, value in space.items()
        if isinstance(value, kaio.Kernel)
    }


KERNELS = kernels()


def test_there_are_examples() -> None:
    showcase = {"silu_gate", "gelu", "rms_norm", "layer_norm", "softmax"}
    quantised = {"int8_dequantise", "int8_matmul", "int4_matmul", "quantised_attention"}
    assert {"saxpy", "matmul", "async_pipeline", *showcase, *quantised} <= set(EXAMPLES)
    assert len(KERNELS) >= len(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_agrees_with_numpy(name: str, device: kaio.Device, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(device)
    assert "NumPy" in capsys.readouterr().out


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs_as_a_script(name: str) -> None:
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, script, "cpu"], cwd=ROOT, env=child_environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "NumPy" in done.stdout


def child_environment() -> dict[str, str]:
    """This process' environment, with the checkout to import from."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_compiles_to_what_its_docstring_says(name: str) -> None:
    kernel = KERNELS[name]
    check(kernel.ptx("sm_90"), kernel.__doc__ or "", never=["call", "selp.b64", "{{\\bmul.f32}}", "{{\\badd.f32}}"])


@pytest.mark.parametrize("name", [name for name in KERNELS if not name.startswith("async_pipeline")])  # sums in f64
def test_f32_kernel_holds_no_f64(name: str) -> None:
    assert ".f64" not in KERNELS[name].ptx("sm_90")


def test_saxpy_holds_nothing_but_saxpy() -> None:
    check(KERNELS["saxpy.saxpy"].ptx("sm_90"), "CHECK: saxpy", never=[".f64", "selp", "call", "mul.rn", "add.rn"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_assembles_without_a_gpu(name: str, target: str) -> None:
    program = KERNELS[name].compile(target)
    assert program.target == target
    assert program.cubin.startswith(b"\x7fELF")


@pytest.mark.parametrize(("rows", "depth", "cols"), [(1, 1, 1), (16, 16, 16), (17, 33, 15), (5, 0, 7), (1, 300, 1)])
def test_matmul_takes_any_shape(device: kaio.Device, rows: int, depth: int, cols: int) -> None:
    load("matmul").main(device, rows, depth, cols)


def test_matmul_of_nothing_is_nothing(device: kaio.Device) -> None:
    a, b = device.alloc_zeros((0, 3), kaio.f32), device.alloc_zeros((3, 4), kaio.f32)
    assert load("matmul").multiply(a, b).to_host().shape == (0, 4)


def test_matmul_refuses_shapes_that_do_not_multiply(device: kaio.Device) -> None:
    a, b = device.alloc_zeros((2, 3), kaio.f32), device.alloc_zeros((4, 5), kaio.f32)
    with pytest.raises(ValueError) as caught:
        load("matmul").multiply(a, b)
    assert str(caught.value) == "a is 2 x 3 and b is 4 x 5: they do not multiply"


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 255), (2, 256), (2, 257), (1, 5000), (0, 5)])
def test_softmax_takes_any_number_of_columns(device: kaio.Device, rows: int, columns: int) -> None:
    load("softmax").main(device, rows, columns)


def test_softmax_is_not_upset_by_large_values(device: kaio.Device) -> None:
    softmax = load("softmax")
    x = device.alloc_from(np.array([[3e38, 3e38, -3e38]], np.float32))
    out = device.alloc_empty((1, 3), kaio.f32)
    softmax.softmax.grid(1).block(softmax.THREADS).launch(x, out).wait()
    np.testing.assert_array_equal(out.to_host(), np.array([[0.5, 0.5, 0]], np.float32))


@pytest.mark.parametrize(("tokens", "hidden"), [(1, 1), (9, 33), (1000, 1)])
def test_silu_gate_takes_any_shape(device: kaio.Device, tokens: int, hidden: int) -> None:
    load("silu_gate").main(device, tokens, hidden)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "int8_dequantise"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 255), (2, 256), (2, 257), (1, 5000), (70_000, 2)])
def test_each_row_is_taken_whatever_their_number(device: kaio.Device, name: str, rows: int, columns: int) -> None:
    load(name).main(device, rows, columns)


@pytest.mark.parametrize("name", ["int8_matmul", "int4_matmul"])
@pytest.mark.parametrize(("rows", "depth", "cols"), [(1, 1, 1), (16, 16, 16), (17, 33, 15), (1, 301, 1), (3, 65, 40)])
def test_quantised_matmul_takes_any_shape(device: kaio.Device, name: str, rows: int, depth: int, cols: int) -> None:
    load(name).main(device, rows, depth, cols)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("tokens", "size"), [(1, 1), (127, 3), (129, 200), (300, 64)])
def test_quantised_attention_takes_any_shape(device: kaio.Device, tokens: int, size: int, causal: bool) -> None:
    load("quantised_attention").main(device, tokens, tokens, size, causal)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 100_003])
def test_gelu_takes_any_size(device: kaio.Device, n: int) -> None:
    load("gelu").main(device, n)


def test_gelu_is_not_upset_by_large_values(device: kaio.Device) -> None:
    x = np.array([-3e38, -100, -0.0, 0, 100, 3e38], np.float32)
    for kernel in (load("gelu").gelu, load("gelu").fast_gelu):
        out = device.alloc_empty(x.size, kaio.f32)
        kernel.over(x.size).launch(device.alloc_from(x), out).wait()
        np.testing.assert_array_equal(out.to_host(), np.maximum(x, 0))


@pytest.mark.parametrize("n", [1, 255, 256, 257, 100_003])
def test_saxpy_takes_any_size(device: kaio.Device, n: int) -> None:
    load("saxpy").main(device, n)
