from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

import kaio
from kaio import D2, Const, DType, In, InOut, KaioError, LaunchError, Out, UnsupportedFeatureError, f32, f64, i32
from kaio.dsl.compiler import pipeline
from kaio.errors import CompileError
from kaio.program import Build
from kaio.variants import compiler_target, same_value
from tests.refusals import refusal

T = TypeVar("T", f32, f64)
OFFSET = 1.0
settings = SimpleNamespace(gain=2.0)


@kaio.kernel
def saxpy(x: In[f32], y: InOut[f32], a: f32):
    """a * x + y, into y."""
    i = kaio.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kaio.kernel
def shift(x: InOut[f32]):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = x[i] + OFFSET


@kaio.kernel
def power(x: InOut[T], exponent: Const[int] = 2):
    i = kaio.grid(1)
    if i < x.size:
        x[i] = x[i] ** exponent


@kaio.kernel
def transpose(a: In[f32, D2], b: Out[f32, D2]):
    column, row = kaio.grid(2)
    if row < a.shape[0] and column < a.shape[1]:
        b[column, row] = a[row, column]


@pytest.fixture
def cpu() -> kaio.Device:
    return kaio.Device("cpu")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The specialisations that are compiled for the CPU from here on."""
    found: list[Any] = []
    original = pipeline.compile_host

    def compile_host(front: Any, specialisation: Any, options: Any, build: Build) -> Any:
        found.append((specialisation, build))
        return original(front, specialisation, options, build)

    monkeypatch.setattr(pipeline, "compile_host", compile_host)
    return found


def ran(kernel: Any, cpu: kaio.Device, value: float, *args: Any, dtype: Any = np.float32, **options: Any) -> float:
    """What the kernel makes of one element."""
    x = cpu.alloc_from(np.array([value], dtype))
    kernel.over(1).options(**options).launch(x, *args).wait()
    return float(x.to_host()[0])


# --- the value --------------------------------------------------------------------------------------------------------


def test_it_keeps_what_describes_the_function() -> None:
    assert saxpy.__name__ == saxpy.name == "saxpy"
    assert saxpy.__doc__ == "a * x + y, into y."
    assert saxpy.__module__ == __name__
    assert inspect.unwrap(saxpy) is saxpy.__wrapped__
    assert str(inspect.signature(saxpy)) == "(x: In[f32], y: InOut[f32], a: f32)"
    assert str(inspect.signature(power)) == "(x: InOut[T], exponent: Const[int] = 2)"
    assert repr(saxpy) == "<kaio.kernel saxpy(x: In[f32], y: InOut[f32], a: f32)>"


def test_without_a_docstring_it_says_how_it_is_launched() -> None:
    assert transpose.__doc__ == (
        "transpose(a: In[f32, D2], b: Out[f32, D2]): launch it with `transpose.over(b.shape).launch(a, b)`."
    )
    assert transpose.__doc__ in pydoc.render_doc(transpose, renderer=pydoc.plaintext)


def test_what_is_for_users_is_listed() -> None:
    named = {name for name in dir(saxpy) if not name.startswith("_")}
    launching = {"over", "grid", "block", "shared", "on", "options", "launch", "bind", "trace"}
    looking = {"compile", "stages", "ptx", "llvm", "types", "name", "signature", "launch_bounds"}
    assert named == launching | looking


def test_it_does_not_change() -> None:
    for change in (lambda: setattr(saxpy, "name", "other"), lambda: delattr(saxpy, "parameters")):
        assert refusal(change, error=AttributeError) == "kernel `saxpy` is immutable"


def test_it_pickles_by_its_import_name() -> None:
    assert pickle.loads(pickle.dumps(saxpy)) is saxpy
    assert copy.copy(saxpy) is saxpy
    assert copy.deepcopy([saxpy])[0] is saxpy


def test_one_of_no_module_copies_to_itself_as_functions_do() -> None:
    @kaio.func
    def twice(x):
        return 2 * x

    @kaio.kernel
    def local(y: Out[f32]):
        y[0] = twice(1)

    for made in (local, twice):
        assert copy.copy(made) is made
        assert copy.deepcopy([made])[0] is made


def test_a_launcher_copies_to_itself_and_pickles_with_geometry_options_and_device() -> None:
    launcher = saxpy.over(8, 4).block(32, 8).on(kaio.Device("cpu")).options(check="off", timed=True)
    assert copy.copy(launcher) is launcher
    assert copy.deepcopy([launcher])[0] is launcher
    twin = pickle.loads(pickle.dumps(launcher))
    assert (twin.kernel, repr(twin)) == (saxpy, repr(launcher))
    gridded = pickle.loads(pickle.dumps(saxpy[2, 64]))
    x, y = (kaio.Device("cpu").alloc_from(np.ones(100, np.float32)) for _ in "xy")
    gridded(x, y, 2.0).wait()
    assert y.to_host().tolist() == [3.0] * 100


def test_what_is_bound_to_this_process_is_not_pickled() -> None:
    cpu = kaio.Device("cpu")
    stream = cpu.stream()
    assert refusal(pickle.dumps, saxpy.over(8).on(stream)) == (
        "a launch of kernel `saxpy` on a stream of its own is not pickled\n"
        "  help: leave `.on(stream)` to where it is launched"
    )
    x, y = cpu.alloc_zeros(8, f32), cpu.alloc_zeros(8, f32)
    for use in (copy.copy, copy.deepcopy, pickle.dumps):
        assert refusal(use, saxpy.over(8).bind(x, y, 1.0)) == (
            "a BoundLaunch of kernel `saxpy` is neither copied nor pickled: it holds a stream and buffers of this "
            "process\n  help: bind again: `kernel.over(…).bind(…)`"
        )
        with pytest.raises(KaioError, match="a Stream is neither copied nor pickled"):
            use(stream)


def test_it_is_no_container() -> None:
    with pytest.raises(TypeError, match="not a container"):
        3 in saxpy  # noqa: B015
    with pytest.raises(TypeError, match="not iterable"):
        iter(saxpy)


def test_a_first_launch_while_python_shuts_down_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    x = kaio.Device("cpu").alloc_zeros(8, f32)

    @kaio.kernel
    def late(x: InOut[f32]):
        x[0] = f32(1)

    with monkeypatch.context() as patch:
        patch.setattr("sys.meta_path", None)
        message = refusal(late.over(8).launch, x)
    assert message == (
        "kernel `late` cannot be compiled any more: Python is shutting down\n  help: launch it once before that"
    )


def test_one_that_cannot_be_imported_says_so_when_it_is_pickled() -> None:
    @kaio.kernel
    def inner(x: In[f32]):
        pass

    assert refusal(pickle.dumps, inner, error=pickle.PicklingError) == (
        f"kernel `inner` cannot be pickled: it is pickled by its import name, and `{__name__}.{inner.__qualname__}` "
        "is not it\n  help: define it at the top of a module, under its own name"
    )


def test_calling_it_shows_the_launch_to_write() -> None:
    assert refusal(saxpy, 1, 2, 3) == (
        "kernel `saxpy` is launched, not called\n  help: say over what it runs: `saxpy.over(y.size).launch(x, y, a)`"
    )
    assert "`transpose.over(b.shape).launch(a, b)`" in refusal(transpose)


@pytest.mark.parametrize("what", [abs, 3, "k", saxpy])
def test_only_a_python_function_is_taken(what) -> None:
    assert refusal(kaio.kernel, what, error=KaioError) == (
        f"`@kaio.kernel` takes a Python function (got {what!r})\n"
        "  help: write it above `def`: `@kaio.kernel`, or with options `@kaio.kernel(fastmath=True)`"
    )


@pytest.mark.parametrize(
    ("name", "value", "low", "high"),
    [
        ("max_registers", 8, 16, 255),
        ("max_registers", 256, 16, 255),
        ("max_registers", 32.0, 16, 255),
        ("launch_bounds", 0, 1, 1024),
        ("launch_bounds", 1025, 1, 1024),
        ("launch_bounds", True, 1, 1024),
        ("launch_bounds", (128, 2), 1, 1024),
    ],
)
def test_an_option_out_of_range_is_refused(name, value, low, high) -> None:
    assert refusal(kaio.kernel, error=KaioError, **{name: value}) == (
        f"`{name}` of a kernel is a whole number from {low} to {high} (got {value!r})"
    )


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("fast_math", "did you mean `fastmath`?"),
        ("grid", "it takes contract=, fastmath=, max_registers=, launch_bounds="),
    ],
)
def test_an_unknown_option_is_refused(name, help) -> None:
    message = f"`@kaio.kernel` has no option `{name}`\n  help: {help}"
    assert refusal(kaio.kernel, error=KaioError, **{name: True}) == message


def test_frames_of_kaio_are_hidden_in_tracebacks() -> None:
    with pytest.raises(LaunchError) as caught:
        saxpy.over(1).launch(1, 2, 3.0)
    hidden = [entry.ishidden(caught) for entry in caught.traceback]
    assert hidden == [False, *[True] * (len(hidden) - 1)]
    assert len(hidden) > 2


def test_frames_of_a_mistake_in_a_kernel_are_hidden_in_tracebacks() -> None:
    @kaio.kernel
    def wrong(x: InOut[f32]):
        x[0] = x

    def unknown(x: InOut[f32]):
        x[0] = nothing  # noqa: F821

    for call in (wrong.types, wrong.compile, lambda: kaio.kernel(unknown)):
        with pytest.raises(KaioError) as caught:
            call()
        shown = [entry for entry in caught.traceback if not entry.ishidden(caught)]
        assert {str(entry.path) for entry in shown} == {__file__}


def test_the_mistakes_of_its_parameters_are_raised_where_it_is_decorated() -> None:
    def wrong(x: list): ...

    with pytest.raises(kaio.KernelSyntaxError):
        kaio.kernel(wrong)


# --- launching --------------------------------------------------------------------------------------------------------


def test_a_launch_runs_the_kernel(device) -> None:
    x = device.alloc_from(np.arange(1000, dtype=np.float32))
    y = device.alloc_from(np.ones(1000, np.float32))
    saxpy.over(y.size).launch(x, y, 2.0).wait()
    assert (y.to_host() == 2 * np.arange(1000) + 1).all()


def test_the_short_form_runs_the_kernel(device) -> None:
    x = device.alloc_from(np.arange(100, dtype=np.float32))
    y = device.alloc_zeros(100, f32)
    saxpy[4, 32](x, y, a=3).wait()
    assert (y.to_host() == 3 * np.arange(100)).all()


def test_over_goes_with_grid_as_columns_and_rows(device) -> None:
    a = np.arange(100 * 37, dtype=np.float32).reshape(100, 37)
    b = device.alloc_zeros((37, 100), f32)
    transpose.over(a.shape).launch(device.alloc_from(a), b).wait()
    assert (b.to_host() == a.T).all()


def position(n: int) -> tuple[int, int]:
    return kaio.grid(2)


@kaio.kernel
def filled(x: Out[f32, D2]):
    column, row = position(2)
    if row < x.shape[0] and column < x.shape[1]:
        x[row, column] = 1.0


def test_over_has_the_axes_of_a_grid_that_is_asked_for_in_a_function(cpu) -> None:
    x = cpu.alloc_zeros((2, 4), f32)
    for call in (filled.over(8).launch, filled.over(8).bind):
        assert refusal(call, x).startswith("kernel `filled` uses `kaio.grid(2)`, but `over(8)` has 1 axis\n")
    filled.over(2, 4).launch(x).wait()
    assert x.to_host().all()


def test_a_bound_launch_runs_again_and_again(device) -> None:
    x = device.alloc_from(np.ones(10, np.float32))
    y = device.alloc_zeros(10, f32)
    bound = saxpy.over(10).bind(x, y, 1.0)
    bound.launch()
    bound.launch()
    bound.update(a=10.0)
    bound.launch().wait()
    assert (y.to_host() == 12.0).all()


@pytest.mark.parametrize("geometry", [4, (4,), (4, 32, None), (4, 32, 0, 0)])
def test_the_short_form_takes_a_grid_and_a_block(geometry) -> None:
    assert refusal(lambda: saxpy[geometry]) == (
        f"`saxpy[…]` takes a grid and a block (got {geometry!r})\n"
        "  help: `saxpy[grid, block](…)`; a stream goes to `.on(stream)`"
    )


def test_over_tells_whole_numbers_from_their_likes() -> None:
    saxpy.over(1)
    for like in (1.0, True):
        assert "takes whole numbers" in refusal(saxpy.over, like)


def test_a_launch_or_a_bind_without_geometry_is_refused(cpu) -> None:
    x = cpu.alloc_zeros(4, f32)
    for call in (shift.launch, shift.bind, shift.on(cpu).launch, shift.options().launch):
        assert refusal(call, x) == (
            "kernel `shift` is launched without saying over what\n  help: for example `shift.over(x.size)`"
        )
    assert refusal(shift.block(64).launch, x).endswith("for example `shift.over(x.size).block(64)`")


# --- compiling once ---------------------------------------------------------------------------------------------------


def fresh(function: Any = None, **options: Any) -> Any:
    """A kernel that nothing was compiled of yet."""
    return kaio.kernel(**options)((function or shift).__wrapped__)


def test_a_kernel_is_compiled_once_for_each_specialisation(cpu, compiled) -> None:
    kernel = fresh(power)
    for exponent in (2, 3, 2, 3):
        assert ran(kernel, cpu, 2.0, exponent) == 2.0**exponent
    assert ran(kernel, cpu, 3.0, dtype=np.float64) == 9.0
    assert [(s.consts, s.dtypes) for s, _ in compiled] == [
        ((("exponent", 2),), (("T", f32),)),
        ((("exponent", 3),), (("T", f32),)),
        ((("exponent", 2),), (("T", f64),)),
    ]


def test_the_check_is_part_of_what_is_compiled(cpu, compiled) -> None:
    kernel = fresh()
    for check in ("bounds", "off", "bounds", True, False):
        ran(kernel, cpu, 1.0, check=check)
    assert [build for _, build in compiled] == [Build("bounds"), Build("off")]


def test_threads_that_arrive_together_compile_once(cpu, compiled) -> None:
    kernel = fresh()
    barrier = threading.Barrier(16)

    def run(value: int) -> float:
        barrier.wait()
        return ran(kernel, cpu, value)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(run, range(16))) == [value + 1.0 for value in range(16)]
    assert len(compiled) == 1


def test_two_kernels_of_one_function_are_compiled_each(cpu, compiled) -> None:
    ran(fresh(), cpu, 1.0)
    ran(fresh(contract=False), cpu, 1.0)
    assert len(compiled) == 2


# --- captured values --------------------------------------------------------------------------------------------------


def test_a_captured_global_that_changed_is_compiled_again(cpu, compiled, monkeypatch) -> None:
    kernel = fresh()
    assert ran(kernel, cpu, 1.0) == 2.0
    monkeypatch.setitem(globals(), "OFFSET", 10.0)
    assert ran(kernel, cpu, 1.0) == 11.0
    assert ran(kernel, cpu, 1.0) == 11.0
    assert len(compiled) == 2


def test_a_captured_global_that_is_new_but_equal_is_not_compiled_again(cpu, compiled, monkeypatch) -> None:
    kernel = fresh()
    monkeypatch.setitem(globals(), "OFFSET", float("2.5"))
    assert ran(kernel, cpu, 1.0) == 3.5
    monkeypatch.setitem(globals(), "OFFSET", float("2.5"))
    assert ran(kernel, cpu, 1.0) == 3.5
    assert len(compiled) == 1


def test_a_captured_global_of_another_type_is_compiled_again(cpu, compiled, monkeypatch) -> None:
    kernel = fresh()
    ran(kernel, cpu, 1.0)
    monkeypatch.setitem(globals(), "OFFSET", 1)
    ran(kernel, cpu, 1.0)
    assert len(compiled) == 2


def test_a_captured_closure_variable_that_changed_is_compiled_again(cpu, compiled) -> None:
    by = 2.0

    @kaio.kernel
    def scale(x: InOut[f32]):
        i = kaio.grid(1)
        if i < x.size:
            x[i] = x[i] * by

    assert ran(scale, cpu, 3.0) == 6.0
    by = 5.0
    assert ran(scale, cpu, 3.0) == 15.0
    assert len(compiled) == 2


def test_a_bound_launch_does_not_look_again(cpu, monkeypatch) -> None:
    x = cpu.alloc_zeros(1, f32)
    bound = fresh().over(1).bind(x)
    monkeypatch.setitem(globals(), "OFFSET", 100.0)
    bound.launch().wait()
    assert x.to_host()[0] == 1.0


@dataclass(frozen=True)
class Gain:
    value: float
    unit: InitVar[int]  # no value has it


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (1.5, float("1.5"), True),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        (1, 1.0, False),
        (1, True, False),
        ((1, 2.0), (1, float("2")), True),
        ((1, 2), (1, 2, 3), False),
        ("ab", "a" + "b", True),
        (np.float32(2), np.float32(2), True),
        (np.float32(2), np.float64(2), False),
        (np.arange(3), np.arange(3), True),
        (np.arange(3), np.arange(3.0), False),
        (np.zeros((2, 3)), np.zeros((3, 2)), False),
        ([1], [1], False),
        (f32, f32, True),
        (Gain(2.0, 1), Gain(2.0, 2), True),
        (Gain(2.0, 1), Gain(3.0, 1), False),
        (lambda: 1, lambda: 1, False),
    ],
)
def test_what_counts_as_the_same_captured_value(one, two, same) -> None:
    assert same_value(one, two) is same


# --- looking at what was compiled -------------------------------------------------------------------------------------


def test_compile_gives_the_program_for_a_target() -> None:
    assert saxpy.compile("sm_90").target == "sm_90"
    assert saxpy.compile("sm_80").target == "sm_80"
    assert saxpy.compile(kaio.Device("cpu")) is saxpy.compile("cpu")
    assert [str(argument) for argument in saxpy.compile("cpu").arguments] == ["x: In[f32]", "y: InOut[f32]", "a: f32"]
    assert saxpy.compile("cpu", index_bits=64).index_bits == 64


def test_a_launch_after_compile_compiles_nothing(cpu, compiled) -> None:
    kernel = fresh()
    kernel.compile(cpu)
    ran(kernel, cpu, 1.0)
    assert len(compiled) == 1


def test_ptx_llvm_and_types_are_text() -> None:
    assert ".entry saxpy(" in saxpy.ptx("sm_90")
    assert "saxpy" in saxpy.llvm("sm_90")
    assert "saxpy" in saxpy.llvm("cpu")
    assert "f32" in saxpy.types("sm_90")


def test_stages_are_named_and_print() -> None:
    stages = saxpy.stages("sm_90")
    assert {"types", "llvm", "ptx"} <= set(stages)
    assert all(str(stage) for stage in stages.values())


def test_a_program_for_the_cpu_has_no_ptx() -> None:
    assert refusal(saxpy.ptx, "cpu", error=UnsupportedFeatureError) == (
        'a kernel compiled for cpu has no ptx\n  help: name a GPU: `saxpy.ptx("sm_90")`'
    )


def test_constants_and_dtypes_are_given_by_name() -> None:
    assert ".f64" in power.ptx("sm_90", T=f64)
    assert ".f64" not in power.ptx("sm_90", x=f32, exponent=3)
    assert refusal(power.ptx, "sm_90") == (
        'kernel `power` is compiled for a dtype of its `T`\n  help: name it, as in `power.ptx("sm_90", T=kaio.f32)`'
    )
    assert "as in `power.types(T=kaio.f32)`" in refusal(power.types)
    assert "as in `power.compile(device, T=kaio.f32)`" in refusal(power.compile, kaio.Device("cpu"))
    assert refusal(power.ptx, "sm_90", T=f32, n=3) == (
        "kernel `power` has no constant or dtype `n`\n"
        "  help: its parameters are `power(x: InOut[T], exponent: Const[int] = 2)`"
    )
    assert refusal(power.ptx, "sm_90", T=f32, exponent=1.5) == (
        "argument `exponent` of kernel `power` is a constant and must be an int (got 1.5, a float)\n"
        "  help: convert it with `int(exponent)`"
    )
    assert refusal(power.ptx, "sm_90", T=i32) == "`T` of kernel `power` must be one of f32, f64 (got i32)"


def test_a_constant_without_a_value_is_asked_for() -> None:
    @kaio.kernel
    def tiled(x: In[f32], tile: Const[int], of: Const[DType]):
        pass

    assert refusal(tiled.ptx, "sm_90", of=f32) == (
        "kernel `tiled` is compiled for a value of its constant `tile`\n"
        '  help: name it, as in `tiled.ptx("sm_90", tile=…)`'
    )


@pytest.mark.parametrize("target", ["sm90", "gfx90a", 90, "SM_90"])
def test_what_is_no_target_is_refused(target) -> None:
    assert refusal(saxpy.ptx, target, error=CompileError) == (
        f'{target!r} is not a target\n  help: for example "sm_90", "cpu", or a device'
    )


class Gpu(kaio.Device):
    """As much of a GPU as the choice of what to compile looks at."""

    kind, target, check = "cuda", "sm_90", "off"

    def __new__(cls) -> Gpu:
        return object.__new__(cls)

    def __str__(self) -> str:
        return "cuda:0"


def test_a_launch_on_a_gpu_compiles_for_its_target_without_checks() -> None:
    assert compiler_target(Gpu()) == ("sm_90", Build("off"))


def test_a_check_that_a_gpu_does_not_have_is_refused() -> None:
    assert compiler_target(Gpu(), Build("bounds")) == ("sm_90", Build("bounds"))
    assert refusal(compiler_target, Gpu(), Build("full"), error=UnsupportedFeatureError) == (
        '`check="full"` is for the CPU device: cuda:0 finds what `check="bounds"` does\n'
        '  help: run the kernel on `kaio.Device("cpu", check="full")`'
    )
