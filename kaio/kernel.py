"""`@kaio.kernel` and `Kernel`: where compiler and runtime meet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, overload

from kaio.dsl.compiler.options import CompileOptions, check_options
from kaio.dsl.function import by_import_name
from kaio.dsl.types import Signature
from kaio.errors import KaioError, LaunchError, UnsupportedFeatureError, is_message
from kaio.launch import BoundLaunch, Launcher
from kaio.launch.arguments import Parameters
from kaio.launch.by_name import consts_and_dtypes
from kaio.program import Program
from kaio.runtime import Completion, Device
from kaio.variants import IndexBits, Variants, compiler_target

if TYPE_CHECKING:
    from kaio.dsl.compiler.pipeline import Compiled, Front
    from kaio.runtime.trace import Trace

__all__ = ["Kernel", "kernel"]

# Launchers of one-dimensional `over`, kept so that a loop over the same size finds its geometry resolved.
_KEPT_LAUNCHERS = 64

# What `dir` leaves out: parts that other modules of kaio use.
_HIDDEN = {"compile_options", "parameters", "variants"}


class Kernel:
    """A kernel: an immutable value that is compiled on first use, once for each specialisation and target.

    Made by `@kaio.kernel`. Say over what it runs, then launch it: `saxpy.over(y.size).launch(x, y, 2.0)`. The first
    launch compiles, which takes about a second in a new process; `saxpy.compile(device)` does so ahead of time.
    It pickles by its import name.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    parameters: Parameters
    variants: Variants
    compile_options: CompileOptions
    _front: Front
    _launchers: dict[int, Launcher]

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        from kaio.dsl.compiler import pipeline  # with the first kernel, so that `import kaio` is quick

        __tracebackhide__ = is_message
        front = pipeline.read(function)
        parameters = Parameters(front.signature)
        own = {name: getattr(function, name) for name in ("__name__", "__qualname__", "__module__")}
        self.__dict__.update(
            own,
            __doc__=function.__doc__ or f"{front.signature}: launch it with `{_launch_line(parameters)}`.",
            __wrapped__=function,
            parameters=parameters,
            compile_options=options,
            _front=front,
            variants=Variants(front, options, parameters),
            _launchers={},
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"kernel `{self.name}` is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"kernel `{self.name}` is immutable")

    @property
    def name(self) -> str:
        """The kernel's name; also that of its entry in the PTX."""
        return self._front.signature.name

    @property
    def signature(self) -> Signature:
        """The parameters as annotated."""
        return self._front.signature

    @property
    def __signature__(self) -> inspect.Signature:
        found = inspect.signature(self.__wrapped__)
        read = {param.name: param.annotation for param in self.signature.params}
        parameters = [param.replace(annotation=read[name]) for name, param in found.parameters.items()]
        return found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in _HIDDEN]

    @property
    def launch_bounds(self) -> int | None:
        """The most threads of a block, as given to the decorator."""
        return self.compile_options.launch_bounds

    def __repr__(self) -> str:
        return f"<kaio.kernel {self.signature}>"

    def __reduce__(self) -> str:
        return by_import_name(self, "kernel")

    def __copy__(self) -> Kernel:
        return self  # immutable, as a Python function to `copy`

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise LaunchError: a kernel is launched, not called."""
        __tracebackhide__ = is_message
        raise LaunchError(
            f"kernel `{self.name}` is launched, not called",
            help=f"say over what it runs: `{_launch_line(self.parameters)}`",
        )

    # Launching: the first word of a launch. Each gives a Launcher.

    def over(self, shape: Any, *axes: Any) -> Launcher:
        """One thread for each element of a NumPy shape, the last axis being x: see `Launcher.over`."""
        if axes or type(shape) is not int:  # True and 1.0 would be found as 1
            return Launcher(self).over(shape, *axes)
        found = self._launchers.get(shape)
        if found is None:
            found = Launcher(self).over(shape)
            if len(self._launchers) >= _KEPT_LAUNCHERS:
                self._launchers.clear()
            self._launchers[shape] = found
        return found

    def grid(self, *blocks: Any) -> Launcher:
        """This many blocks, x first: see `Launcher.grid`."""
        return Launcher(self).grid(*blocks)

    def block(self, *threads: Any) -> Launcher:
        """Blocks of this many threads, x first: see `Launcher.block`."""
        return Launcher(self).block(*threads)

    def on(self, where: Any) -> Launcher:
        """On this stream or device: see `Launcher.on`."""
        return Launcher(self).on(where)

    def options(self, **options: Any) -> Launcher:
        """Options of the launch: see `Launcher.options`."""
        return Launcher(self).options(**options)

    def shared(self, **counts: int) -> Launcher:
        """The elements of each `dynamic_shared` array, by its name: see `Launcher.shared`."""
        return Launcher(self).shared(**counts)

    def launch(self, *args: Any, **kwargs: Any) -> Completion:
        """Raise LaunchError: a launch needs `over` or `grid` first."""
        return Launcher(self).launch(*args, **kwargs)

    def bind(self, *args: Any, **kwargs: Any) -> BoundLaunch:
        """Raise LaunchError: a launch needs `over` or `grid` first."""
        return Launcher(self).bind(*args, **kwargs)

    def trace(
        self, *args: Any, thread: Any = (0, 0, 0), block: Any = (0, 0, 0), limit: int = 10_000, **kwargs: Any
    ) -> Trace:
        """Run it over its first output on the CPU device, and give what one thread does: see `Launcher.trace`."""
        __tracebackhide__ = is_message
        shape = self.parameters.shape_of(self.parameters.bind(args, kwargs))
        return Launcher(self).over(shape).trace(*args, thread=thread, block=block, limit=limit, **kwargs)

    def __getitem__(self, geometry: Any) -> Launcher:
        """The short form: `kernel[grid, block](*args)`, each a whole number or a tuple with x first."""
        if not isinstance(geometry, tuple) or len(geometry) != 2:
            raise LaunchError(
                f"`{self.name}[…]` takes a grid and a block (got {geometry!r})",
                help=f"`{self.name}[grid, block](…)`; a stream goes to `.on(stream)`",
            )
        return Launcher(self).grid(geometry[0]).block(geometry[1])

    # Python would read `3 in kernel` and a loop over it through `__getitem__`, which takes a geometry.
    __iter__ = None
    __contains__ = None

    # Compiling and looking at what came out.

    def compile(
        self, target: str | Device | None = None, *, index_bits: IndexBits = 32, **consts_and_types: Any
    ) -> Program:
        """Compile now, and return the program: for a target ("sm_90", "cpu") or for a device with its checks.

        Constants are given by name, the dtypes of a generic kernel by the name of the TypeVar or of a parameter
        that has it. Without a target: that of the first GPU, or sm_90 where there is none.
        """
        __tracebackhide__ = is_message
        return self._inspect("compile", target, index_bits, consts_and_types, link=True).program

    def stages(
        self, target: str | Device | None = None, *, index_bits: IndexBits = 32, **consts_and_types: Any
    ) -> Mapping[str, object]:
        """Every stage of the compiler by name, in order, each a value that prints readably; as `compile` else."""
        __tracebackhide__ = is_message
        return dict(self._inspect("stages", target, index_bits, consts_and_types).stages)

    def ptx(self, target: str | Device | None = None, *, index_bits: IndexBits = 32, **consts_and_types: Any) -> str:
        """The PTX text, to `print`; as `compile` else."""
        __tracebackhide__ = is_message
        return self._stage("ptx", target, index_bits, consts_and_types)

    def llvm(self, target: str | Device | None = None, *, index_bits: IndexBits = 32, **consts_and_types: Any) -> str:
        """The LLVM IR that kaio hands to libNVVM, or for the CPU to LLVM; as `compile` else."""
        __tracebackhide__ = is_message
        return self._stage("llvm", target, index_bits, consts_and_types)

    def types(self, target: str | Device | None = None, *, index_bits: IndexBits = 32, **consts_and_types: Any) -> str:
        """The source with the type of each variable beside the line that sets it, to `print`; as `compile` else.

        The functions that the kernel calls follow, for each types of arguments that they are called with. The typed
        IR is `stages()["types"]`.

        >>> import kaio
        >>> @kaio.kernel
        ... def mean(x: kaio.In[kaio.f32], y: kaio.Out[kaio.f64]):
        ...     total = 0
        ...     for k in range(x.size):
        ...         total += x[k]
        ...     y[0] = total / x.size
        >>> print(mean.types())  # doctest: +ELLIPSIS
        mean, ...
        1 | @kaio.kernel
        2 | def mean(x: kaio.In[kaio.f32], y: kaio.Out[kaio.f64]):
        3 |     total = 0                                           # total: f32
        4 |     for k in range(x.size):                             # k: i32
        5 |         total += x[k]                                   # total: f32
        6 |     y[0] = total / x.size                               # y[]: f64, from f32
        """
        __tracebackhide__ = is_message
        from kaio.dsl.compiler.type_view import type_view

        typed: Any = self._inspect("types", target, index_bits, consts_and_types).stages["types"]
        consts, _ = consts_and_dtypes(self.parameters, consts_and_types, f"{self.name}.types({_before(target)}")
        return type_view(typed, consts)

    def _stage(self, stage: str, target: Any, index_bits: IndexBits, consts_and_types: dict[str, Any]) -> str:
        __tracebackhide__ = is_message
        found = self._inspect(stage, target, index_bits, consts_and_types).stages
        if stage not in found:
            raise UnsupportedFeatureError(
                f"a kernel compiled for {target} has no {stage}", help=f'name a GPU: `{self.name}.{stage}("sm_90")`'
            )
        return str(found[stage])

    def _inspect(
        self, method: str, target: Any, index_bits: IndexBits, consts_and_types: dict[str, Any], link: bool = False
    ) -> Compiled:
        __tracebackhide__ = is_message
        consts, dtypes = consts_and_dtypes(self.parameters, consts_and_types, f"{self.name}.{method}({_before(target)}")
        target, build = compiler_target(target)
        return self.variants.build(target, build, consts, dtypes, index_bits, link).compiled


def _launch_line(parameters: Parameters) -> str:
    """A launch as a user writes it: `saxpy.over(y.size).launch(x, y, a)`."""
    names = ", ".join(param.name for param in parameters.params)
    return f"{parameters.kernel}.over({parameters.extent}).launch({names})"


def _before(target: Any) -> str:
    """A call's first argument, as it stands before others: `"sm_90", `."""
    if target is None:
        return ""
    return f'"{target}", ' if isinstance(target, str) else "device, "


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(
    *, contract: bool = True, fastmath: bool = False, max_registers: int | None = None, launch_bounds: int | None = None
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    contract: bool = True,
    fastmath: bool = False,
    max_registers: int | None = None,
    launch_bounds: int | None = None,
    **unknown: Any,
) -> Any:
    """Make a kernel of a function whose parameters are annotated with `In`, `Out`, `InOut`, dtypes and `Const`.

    Mistakes of the source are raised here: KernelSyntaxError lists all of them, with their places. Those of types
    (KernelTypeError) are raised where the kernel is first compiled: by its first launch, or by `compile`.

    Compiling takes about a second in a new process, and milliseconds after that: `kernel.compile(device)` does it
    ahead of the first launch.

    A product and the sum that takes it are fused into one rounding, as in CUDA C, so that last bits may differ from
    NumPy's; `contract=False` fuses nothing. `fastmath=True` allows approximate division and functions of f32 on a GPU
    and flushes subnormals there (docs/math.md). `max_registers` limits the registers of a thread (16 to 255),
    `launch_bounds` the threads of a block (1 to 1024), which lets the compiler use more registers.

    >>> import numpy as np, kaio
    >>> @kaio.kernel
    ... def double(x: kaio.InOut[kaio.f32]):
    ...     i = kaio.grid(1)
    ...     if i < x.size:
    ...         x[i] = 2 * x[i]
    >>> x = kaio.Device("cpu").alloc_from(np.array([1.0, 2.5], np.float32))
    >>> double.over(x.size).launch(x).wait()
    >>> x.to_host()
    array([2., 5.], dtype=float32)
    """
    __tracebackhide__ = is_message
    compile_options = CompileOptions(contract, fastmath, max_registers, launch_bounds)
    check_options(compile_options, unknown)

    def decorate(function: Callable[..., Any]) -> Kernel:
        __tracebackhide__ = is_message
        if not inspect.isfunction(function):
            raise KaioError(
                f"`@kaio.kernel` takes a Python function (got {function!r})",
                help="write it above `def`: `@kaio.kernel`, or with options `@kaio.kernel(fastmath=True)`",
            )
        return Kernel(function, compile_options)

    return decorate if function is None else decorate(function)
