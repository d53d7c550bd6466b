from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import kaio
from kaio import KaioError, f32
from tests.dsl import from_text


@kaio.func
def lerp(a: f32, b: f32, t: f32 = 0.5):
    """Between a and b."""
    return a + (b - a) * t


def test_it_runs_as_ordinary_python() -> None:
    assert lerp(2.0, 4.0, t=0.25) == 2.5
    assert lerp(2.0, 4.0) == 3.0


def test_it_keeps_what_describes_the_function() -> None:
    assert lerp.__name__ == "lerp"
    assert lerp.__doc__ == "Between a and b."
    assert lerp.__module__ == __name__
    assert lerp.__wrapped__ is lerp.function
    assert list(inspect.signature(lerp).parameters) == ["a", "b", "t"]
    assert repr(lerp) == "<kaio.func lerp(a: 'f32', b: 'f32', t: 'f32' = 0.5)>"


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError, match="device function `lerp` is immutable"):
        lerp.function = abs


def test_it_pickles_by_its_import_name() -> None:
    assert pickle.loads(pickle.dumps(lerp)) is lerp
    assert copy.deepcopy(lerp) is lerp


def test_one_that_cannot_be_imported_says_so_when_it_is_pickled() -> None:
    @kaio.func
    def inner(a):
        return a

    with pytest.raises(pickle.PicklingError) as caught:
        pickle.dumps(inner)
    name = f"{__name__}.{inner.__qualname__}"
    assert str(caught.value) == (
        f"device function `inner` cannot be pickled: it is pickled by its import name, and `{name}` is not it\n"
        "  help: define it at the top of a module, under its own name"
    )


def test_one_of_a_loop_runs_with_what_it_captured() -> None:
    def make(by):
        @kaio.func
        def scale(x):
            return x * by

        return scale

    assert [make(by)(3) for by in (2, 10)] == [6, 30]


@pytest.mark.parametrize("what", [abs, 3, "f", lerp])
def test_only_a_python_function_is_taken(what) -> None:
    with pytest.raises(KaioError) as caught:
        kaio.func(what)
    assert str(caught.value) == (
        f"`@kaio.func` takes a Python function (got {what!r})\n"
        "  help: write it as `@kaio.func` above `def`, without arguments"
    )


def calls_itself(a):
    return calls_itself(a - 1)


@kaio.func
def marked_calls_itself(a):
    return marked_calls_itself(a - 1)


def in_a_closure():
    def inner(a):
        return inner(a - 1)

    return inner


@pytest.mark.parametrize("function", [calls_itself, marked_calls_itself, in_a_closure()], ids=lambda f: f.__name__)
def test_a_function_that_calls_itself_is_refused_with_the_cycle(function):
    @kaio.kernel
    def kernel(x: kaio.In[kaio.f32], y: kaio.Out[kaio.f32]):
        y[0] = function(x[0])

    name = function.__name__
    with pytest.raises(kaio.KernelTypeError, match=f"recursion: `{name}` → `{name}`"):
        kernel.ptx("sm_90")


@kaio.kernel
def launches_itself(x: kaio.In[kaio.f32], y: kaio.Out[kaio.f32]):
    launches_itself(x, y)


def test_a_kernel_that_calls_a_kernel_is_refused():
    with pytest.raises(kaio.KernelTypeError, match="a kernel cannot launch a kernel"):
        launches_itself.ptx("sm_90")


@pytest.mark.parametrize("name", ["inner", "factory", "body", "kernel_body", "annotated", "k"])
def test_a_function_of_any_name_is_called(name: str) -> None:
    made = from_text.kernel(f"""
        def {name}(x):
            return x + 1

        def called(x):
            return {name}(x)

        @kernel
        def {"launched" if name == "k" else "k"}(x: InOut[f32]):
            x[0] = {name}(x[0]) + called(x[0])
    """)
    x = kaio.Device("cpu").alloc_zeros(1, f32)
    made.grid(1).block(1).launch(x).wait()
    assert x.to_host()[0] == 2
