"""`import kaio` is cheap: what compiles and what drives a GPU is loaded when it is first needed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

HEAVY = ("numba", "llvmlite.binding", "cuda", "torch", "cupy", "jax", "triton", "asyncio", "PIL", "multiprocessing")


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh process has loaded after `statement`, beyond those of NumPy."""
    code = f"import sys, numpy; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def heavy(modules: set[str]) -> set[str]:
    return {name for name in modules for slow in HEAVY if name == slow or name.startswith(slow + ".")}


def test_importing_kaio_loads_no_compiler_and_no_driver() -> None:
    loaded = modules_after("import kaio")
    assert heavy(loaded) == set()
    assert "kaio.cli" not in loaded
    assert "kaio.demo" not in loaded


def test_decorating_a_kernel_loads_no_compiler_and_no_driver() -> None:
    assert heavy(modules_after("import examples.saxpy")) == set()


def test_what_is_loaded_beyond_numpy_stays_small() -> None:
    """A count, because a time says more about the machine than about kaio."""
    assert len([name for name in modules_after("import kaio") if not name.startswith("kaio")]) < 60


@pytest.mark.parametrize("name", ["kaio.Device", "kaio.kernel", "kaio.In", "kaio.errors.KaioError", "kaio.KaioError"])
def test_public_names_are_there(name: str) -> None:
    modules_after(f"import kaio.errors; {name}")


def test_everything_in_all_is_there() -> None:
    import kaio

    assert [name for name in kaio.__all__ if not hasattr(kaio, name)] == []


def test_the_package_lists_what_is_for_users() -> None:
    import kaio

    assert {name for name in dir(kaio) if not name.startswith("_")} == set(kaio.__all__)


def test_every_public_name_is_in_the_docstring_of_the_package() -> None:
    import kaio

    assert kaio.__doc__ is not None
    words = set(re.findall(r"\w+", kaio.__doc__))
    assert [name for name in kaio.__all__ if name not in words] == []
    assert max(map(len, kaio.__doc__.splitlines())) <= 120


def test_importing_kaio_needs_no_wheel_of_a_platform() -> None:
    """Where NVIDIA, Numba or llvmlite have no wheel, kaio imports and checks kernels; only compiling needs them."""
    absent = "import sys; sys.modules.update(dict.fromkeys(['numba', 'llvmlite', 'cuda', 'fcntl', 'resource']))"
    modules_after(f"{absent}; import kaio, examples.saxpy")
