"""`Launcher`: what a launch is made of besides its arguments, as an immutable value that `launch` carries out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from kaio.errors import LaunchError, is_message
from kaio.launch.arguments import Parameters
from kaio.launch.call import Call
from kaio.launch.geometry import (
    Dims,
    check_limits,
    check_rank,
    check_registers,
    cover,
    default_block,
    read_dims,
    read_shape,
    shape_block,
    three,
)  # fmt: skip
from kaio.launch.options import build_for, read_check, read_flag, read_run, shown
from kaio.launch.recorded import note_call
from kaio.launch.shared import SharedMemory, lay_out, read_counts
from kaio.launch.together import check_cluster, read_cluster, together, whole_clusters
from kaio.launch.usual import Usual
from kaio.program import Build, Level
from kaio.runtime import Completion, Device, Stream
from kaio.runtime.alike import count_alike
from kaio.runtime.first_block import may_be_alike, rest_of
from kaio.runtime.foreign_stream import ForeignPlace, is_foreign_stream
from kaio.runtime.stream import USUAL, Launch, RunOptions, Together

if TYPE_CHECKING:
    from kaio.launch.bound import BoundLaunch
    from kaio.runtime.trace import Trace

__all__ = ["Launchable", "Launcher", "Variant"]

__tracebackhide__ = is_message

_PICKLED = ("_shape", "_grid", "_block", "_device", "_check", "_counts", "_cooperative", "_cluster", "run", "timed")


class Variant(Protocol):
    """One specialisation of a kernel, loaded on a device."""

    loaded: Any  # with the `program` that it was made of
    built: Any  # with `is_fresh`, whether what it captured is unchanged
    grid_ranks: frozenset[int]  # the n of each `grid(n)` that the kernel uses
    pack: Callable[..., bytes]


class Variants(Protocol):
    """The compiled variants of a kernel."""

    def find(self, device: Device, build: Build, key: tuple[Any, ...], wide: bool) -> Variant | None:
        """The variant if it is there and what it captured is unchanged."""

    def make(self, device: Device, build: Build, call: Call, wide: bool) -> Variant:
        """Compile and load the variant, once."""


class Launchable(Protocol):
    """What a launch needs of a kernel."""

    parameters: Parameters

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def variants(self) -> Variants: ...  # noqa: D102
    @property
    def launch_bounds(self) -> int | None: ...  # noqa: D102


class Geometry(NamedTuple):
    """Grid and block on one device, x first, and how the kernel is compiled for it."""

    grid: Dims
    block: Dims
    wide: bool  # an index along an axis does not fit an i32
    build: Build


class Fitting(NamedTuple):
    """A variant that was found to fit the geometry, and the shared memory that it gets."""

    variant: Variant | None
    shared: SharedMemory
    together: Together | None = None
    plan: object = None  # by which streams know all of it but the arguments; None where no quick way is worth it


OCCUPANCY = "occupancy"
_NOTHING_FITS = Fitting(None, SharedMemory())


class Launcher:
    """A kernel with its geometry, place and options; each method but `launch` and `bind` gives a new value.

    Made by a kernel: `kernel.over(shape)`, `kernel.grid(…)`, `kernel[grid, block]`. It pickles with the kernel's import
    name and by the name of the device, unless it is on a stream.
    """

    __slots__ = (
        "_block", "_check", "_cluster", "_cooperative", "_counts", "_device", "_fitting", "_fullest", "_geometries",
        "_grid", "_shape", "_stream", "_usual", "kernel", "run", "timed",
    )  # fmt: skip

    kernel: Launchable
    run: RunOptions
    timed: bool

    def __init__(self, kernel: Launchable) -> None:
        unset = dict.fromkeys(
            ("_shape", "_grid", "_block", "_stream", "_device", "_check", "_cooperative", "_cluster")
        )  # fmt: skip
        self._fill({"kernel": kernel, "timed": False, "run": USUAL, "_counts": {}, **_unresolved(), **unset})

    _shape: tuple[int, ...] | None
    _grid: tuple[int, ...] | None
    _block: tuple[int, ...] | str | None  # OCCUPANCY
    _stream: Stream | ForeignPlace | None
    _device: Device | None
    _check: Level | None
    _cooperative: bool | None
    _cluster: Dims | None
    _counts: dict[str, int]  # elements of the dynamic shared arrays
    _geometries: dict[Device, Geometry]
    _fullest: dict[Any, tuple[Any, Geometry]]  # by occupancy, for a program that was loaded
    _fitting: Fitting  # the last one
    _usual: Usual | None  # launches of that one in the usual case

    def _fill(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _with(self, **changes: Any) -> Launcher:
        new = Launcher.__new__(Launcher)
        kept = {name: getattr(self, name) for name in Launcher.__slots__}
        new._fill({**kept, **_unresolved(), **changes})
        return new

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Launcher is immutable: `{name}` is given to one of its methods, which makes a new one")

    def __copy__(self) -> Launcher:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Launcher:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._stream is not None:
            raise LaunchError(
                f"a launch of kernel `{self.kernel.name}` on a stream of its own is not pickled",
                help="leave `.on(stream)` to where it is launched",
            )
        return _rebuild, (self.kernel, {name: getattr(self, name) for name in _PICKLED})

    def over(self, shape: Any, *axes: Any) -> Launcher:
        """One thread for each element of a NumPy shape (up to three axes), the last axis being x.

        `over(y.size)`, `over(image.shape)`, `over(480, 640)`. The grid is rounded up to whole blocks, so kernels guard:
        `if i < y.size`. An empty shape launches nothing. A launch of a kernel whose `kaio.grid(n)` all have another
        number of axes raises LaunchError.
        """
        return self._with(_shape=read_shape(self.kernel.name, (shape, *axes) if axes else shape), _grid=None)

    def grid(self, *blocks: Any) -> Launcher:
        """This many blocks, x first: `.grid(64)`, `.grid(8, 4)`, `.grid((8, 4, 2))`; replaces `over`."""
        return self._with(_grid=read_dims(self.kernel.name, "grid", blocks), _shape=None)

    def block(self, *threads: Any) -> Launcher:
        """Blocks of this many threads, x first: `.block(128)`, `.block(32, 8)`. Default: 256, (32, 8) or (8, 8, 4).

        `.block("occupancy")` takes the block that fills the multiprocessors of the device best with this kernel, within
        its launch bounds: of so many threads as the CUDA driver reckons from the registers and shared memory that the
        kernel uses, as (n,), (32, n) or (8, 8, n). On the CPU device it is what the GPU that it is like would take if
        registers did not matter.
        """
        if threads == (OCCUPANCY,):
            return self._with(_block=OCCUPANCY)
        if len(threads) == 1 and isinstance(threads[0], str):
            raise LaunchError(
                f"`block` of kernel `{self.kernel.name}` takes numbers of threads (got {threads[0]!r})",
                help='for example `.block(128)`; `.block("occupancy")` asks for what fills the device best',
            )
        return self._with(_block=read_dims(self.kernel.name, "block", threads))

    def on(self, where: Any) -> Launcher:
        """On this stream or device. Default: the device of the buffers, and the stream that its policy chooses.

        A stream may be one of torch, CuPy or whatever has `__cuda_stream__`, on the device of the buffers.
        """
        if isinstance(where, Stream):
            return self._with(_stream=where, _device=where.device)
        if isinstance(where, Device):
            return self._with(_stream=None, _device=where)
        if is_foreign_stream(where):
            return self._with(_stream=ForeignPlace(where), _device=None)
        raise LaunchError(
            f"`on` of kernel `{self.kernel.name}` takes a stream or a device (got {where!r})",
            help=f"for example `.on(kaio.Device({where!r}))`" if isinstance(where, str | int) else None,
        )

    def options(
        self,
        *,
        check: str | bool | None = None,
        timed: bool | None = None,
        cooperative: bool | None = None,
        cluster: Any = None,
        schedule: int | None = None,
        fuel: int | None = None,
        timeout_s: float | None = None,
        coverage: bool | None = None,
        partial_barriers: bool | None = None,
        **unknown: Any,
    ) -> Launcher:
        """Options of the launch: `check="full"`, `"bounds"` (or True) or `"off"`; without it as the device does.

        With "bounds" a wrong index, a failed `assert`, a division of integers by zero and a negative exponent raise
        KernelFault, on a GPU too. With "full", on the CPU device, so do races and reads of what nobody has written.
        With "off" nothing looks: a wild index reads or overwrites other memory, and may crash the process.
        docs/host.md has a table of what each level finds, and what it costs.

        `timed=True` makes the completion's `elapsed_ms` known.

        `cooperative=True` runs all blocks at the same time, and raises LaunchError for more than fit on the device; a
        kernel that uses `kaio.grid_sync()` is launched so by itself. `cluster=(2, 1, 1)` makes clusters of so many
        blocks, x first, on GPUs from sm_90 on; a grid by `over` is rounded up to whole clusters.

        On the CPU device: `schedule=seed` (an int of 0 or more) runs threads, warps and blocks in an order that the
        seed decides, and the same again for the same seed. `fuel=n` fails a thread that takes more than n turns of
        loops, `timeout_s=60` (10 otherwise) a launch that makes no progress for so long. `coverage=True` fails a launch
        after which an element of an `Out` buffer was not written, or written more than once. `partial_barriers=True`
        lets a thread that has finished count as arrived at any barrier. A GPU takes the last one only, as it does so;
        an isolated one also `timeout_s`, the seconds that a launch may take there.
        """
        changes: dict[str, Any] = {}
        for name in unknown:
            raise LaunchError(f"`options` has no `{name}`", help=f"it takes {', '.join(_OPTIONS)}")
        if check is not None:
            changes["_check"] = read_check(check)
        if timed is not None:
            changes["timed"] = read_flag("timed", timed)
        if cooperative is not None:
            changes["_cooperative"] = read_flag("cooperative", cooperative)
        given = {
            "schedule": schedule, "fuel": fuel, "timeout_s": timeout_s, "coverage": coverage,
            "partial_barriers": partial_barriers,
        }  # fmt: skip
        changes["run"] = read_run(self.run, given)
        if cluster is not None:
            changes["_cluster"] = read_cluster(self.kernel.name, cluster)
        return self._with(**changes)

    def shared(self, **counts: int) -> Launcher:
        """The elements of each `kaio.dynamic_shared` array of the kernel, by its name: `.shared(tile=256)`.

        Every one needs a size, and 0 is one. A later call changes the sizes that it names. A launch raises LaunchError
        for a name that the kernel does not have, and for more bytes than a block of the device can have.
        """
        return self._with(_counts={**self._counts, **read_counts(self.kernel.name, counts)})

    def launch(self, *args: Any, **kwargs: Any) -> Completion:
        """Check the arguments and launch; returns at once with the work's Completion.

        Arguments bind as in a Python call, constants and dtypes like the others. Whatever does not fit raises
        LaunchError (or the buffer's own class) naming the argument, before anything is launched.
        """
        __tracebackhide__ = is_message
        usual = self._usual
        if usual is not None:
            try:
                done = usual(*args, **kwargs) if kwargs else usual(*args)
            except TypeError:  # a miscall, which is told below
                done = None
            if done is not None:
                return done
        stream, launch = self.ready(args, kwargs)
        plan = self._fitting.plan
        if plan is not None:  # the next ones find it there
            stream.learn(plan, launch)
        done = stream.launch(launch)
        if stream.device.recordings:
            note_call(done, self, self.kernel.parameters.bind(args, kwargs))
        return done

    __call__ = launch

    def trace(
        self, *args: Any, thread: Any = (0, 0, 0), block: Any = (0, 0, 0), limit: int = 10_000, **kwargs: Any
    ) -> Trace:
        """Run it on the CPU device, and give what one thread does there: each line with the values that it set.

        Arguments are those of `launch`, and NumPy arrays. The run is on copies of the arrays and buffers, of those of a
        GPU too: nothing that is passed changes. A parameter that is called `thread`, `block` or `limit` is given by
        position. Indices and the like are checked, whatever the device does; a fault is the last entry of the trace,
        and its `fault`. Blocks run one after the other, in one thread, and after `limit` steps no more are recorded.
        """
        from kaio.launch.tracing import run_traced

        __tracebackhide__ = is_message
        return run_traced(self, args, kwargs, thread, block, limit)

    def watched(self, watch: Any, device: Device) -> Launcher:
        """The same launch on a CPU device, looked at."""
        check = self._check or ("bounds" if device.check == "off" else device.check)
        return self._with(_stream=None, _device=device, _check=check, run=self.run._replace(watch=watch))

    @property
    def device(self) -> Device | None:
        """Where it was said to run, None where nothing was said."""
        return self._device

    def geometry(self, device: Device, args: list[Any], kwargs: dict[str, Any]) -> Geometry:
        """The grid and the block on a device for these arguments, or LaunchError."""
        if self._block == OCCUPANCY:
            return self._by_occupancy(device, self.kernel.parameters.check(tuple(args), kwargs))
        found = self._geometries.get(device)
        if found is None:
            found = self._geometries[device] = self._resolve(device)
        return found

    def bind(self, *args: Any, **kwargs: Any) -> BoundLaunch:
        """Check and pack once, to launch again and again: `bound.launch()`."""
        from kaio.launch.bound import BoundLaunch

        __tracebackhide__ = is_message
        return BoundLaunch(self, self.kernel.parameters.bind(args, kwargs))

    def ready(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Stream, Launch]:
        """Do everything that comes before the launch itself."""
        __tracebackhide__ = is_message
        kernel = self.kernel
        call = kernel.parameters.check(args, kwargs)
        device = call.device
        if self._device is not None and device is not self._device:
            device = self._placed(call)
        elif device is None:
            device = Device()
        geometry = self._geometries.get(device)
        if geometry is None:
            if self._block == OCCUPANCY:
                geometry = self._by_occupancy(device, call)
            else:
                geometry = self._geometries[device] = self._resolve(device)
        variant = self._variant(device, geometry, call)
        stream: Any = self._stream or device.stream_for(call.uses)
        if type(stream) is ForeignPlace:
            stream = stream.on(device)
        fitting = self._fitting
        if variant is not fitting[0]:
            fitting = self._fit(variant, geometry, device, call, stream)
        places, shared_nbytes = fitting[1]
        arguments = kernel.parameters.pack(variant.pack, call, places)
        if geometry.build.check == "full":
            self._add_rest(variant, geometry, arguments, call, device)
        return stream, Launch(
            variant.loaded, geometry.grid, geometry.block, arguments, call.uses, shared_nbytes, self.timed,
            fitting.together, self.run,
        )  # fmt: skip

    def _variant(self, device: Device, geometry: Geometry, call: Call) -> Variant:
        variants, wide = self.kernel.variants, geometry.wide or call.wide
        found = variants.find(device, geometry.build, call.key, wide)
        if found is None:
            self.kernel.parameters.convert(call)  # a wrong scalar is told before the time to compile is spent
            found = variants.make(device, geometry.build, call, wide)
        return found

    def _add_rest(self, variant: Variant, geometry: Geometry, arguments: bytes, call: Call, device: Device) -> None:
        """Where one block of a launch shows for all, have the kernel ready that runs the others."""
        loaded, build = variant.loaded, rest_of(call.uses)
        if build in loaded.rests or not may_be_alike(loaded, geometry.grid, self._fitting.together, self.run):
            return
        if count_alike(loaded.program, geometry.grid, geometry.block, arguments):
            rest = self._variant(device, geometry._replace(build=build), call).loaded
            if rest.takes_arguments_of(loaded):
                loaded.rests[build] = rest

    def _by_occupancy(self, device: Device, call: Call) -> Geometry:
        """The geometry with the block that fills the device best, which the kernel as compiled decides."""
        usual = self._resolve(device)
        loaded = self._variant(device, usual, call).loaded
        key = device, call.key, call.wide
        known, found = self._fullest.get(key, (None, usual))
        if known is not loaded:
            shared = lay_out(self.kernel.name, loaded.program, self._counts, device.limits, str(device))
            most = [device.limits.max_threads_per_block, self.kernel.launch_bounds, loaded.max_threads]
            threads = loaded.fullest_block(device, shared.nbytes, min(bound for bound in most if bound is not None))
            found = self._resolve(device, shape_block(len(self._shape or self._grid or ()), threads))
            # Of the same index width, so that it is of this variant: rounded up, a grid can be the larger one.
            found = found._replace(wide=usual.wide or found.wide)
            self._fullest[key] = loaded, found
        return found

    def _fit(self, variant: Variant, geometry: Geometry, device: Device, call: Call, stream: Stream) -> Fitting:
        """The kernel as compiled, for this geometry, or LaunchError; once for each variant in turn."""
        if self._shape is not None:
            check_rank(self.kernel.name, self._shape, variant.grid_ranks)
        most = variant.loaded.max_threads
        if most is not None:
            check_registers(self.kernel.name, geometry.block, most, device.limits.registers_per_block, str(device))
        shared = lay_out(self.kernel.name, variant.loaded.program, self._counts, device.limits, str(device))
        grid, block = geometry.grid, geometry.block
        many = together(
            self.kernel.name, variant.loaded, grid, block, shared.nbytes, self._cooperative, self._cluster, device
        )
        plan = object() if self._is_usual(geometry, call, stream) else None
        make = None if plan is None else self.kernel.parameters.usual(call, bool(shared.places))
        is_fixed = self._stream is not None
        usual = make and make(
            plan=plan,
            is_fresh=variant.built.is_fresh,
            is_fixed=is_fixed,
            get_entered=device._entered.get,
            default=stream if is_fixed else device.usual_sender(),
            pack=variant.pack,
            places=shared.places,
        )
        fitting = Fitting(variant, shared, many, plan)
        self._fill({"_fitting": fitting, "_usual": usual})
        return fitting

    def _is_usual(self, geometry: Geometry, call: Call, stream: Stream) -> bool:
        """Whether launches like this one may be quick: those of a GPU whose streams have nothing to see to."""
        if stream.device.kind != "cuda" or self.timed or geometry.build.check != "off" or geometry.wide or call.wide:
            return False
        policy = stream.policy
        return policy.completion != "sync" and not stream.device.is_blocking

    def _placed(self, call: Call) -> Device:
        """The device named by `on`, which is not that of the buffers."""
        assert self._device is not None
        if call.device is not None:
            name, first = self.kernel.name, self.kernel.parameters.buffer_names[0]
            raise LaunchError(
                f"argument `{first}` of kernel `{name}` is on {call.device}, but the launch is on {self._device}",
                help="leave `.on(…)` out: a launch runs where its buffers are",
            )
        return self._device

    def _resolve(self, device: Device, block_of_ours: tuple[int, ...] | None = None) -> Geometry:
        """The geometry with the block that was named, else with this one, else with the default one."""
        named = self._block if isinstance(self._block, tuple) else block_of_ours
        name, limits, bounds = self.kernel.name, device.limits, self.kernel.launch_bounds
        dims = self._shape if self._shape is not None else self._grid
        if dims is None:
            rest = f".block({', '.join(map(str, self._block))})" if isinstance(self._block, tuple) else ""
            raise LaunchError(
                f"kernel `{name}` is launched without saying over what",
                help=f"for example `{name}.over({self.kernel.parameters.extent}){rest}`",
            )
        block = three(named or default_block(len(dims), limits, bounds))
        grid = cover(self._shape, block) if self._shape is not None else three(dims)
        if self._cluster is not None:
            grid = whole_clusters(grid, self._cluster) if self._shape is not None else grid
            check_cluster(name, grid, self._cluster, device)
        check_limits(name, grid, block, limits, str(device), bounds)
        # The last index along an axis is one less than its threads.
        wide = any(blocks * threads > 2**31 for blocks, threads in zip(grid, block, strict=True))
        return Geometry(grid, block, wide, build_for(name, device, self._check, self.run))

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in ("device", "geometry", "ready", "run", "watched")]

    def __repr__(self) -> str:
        parts = [self.kernel.name]
        for label, value in (("over", self._shape), ("grid", self._grid), ("block", self._block)):
            if value is not None:
                parts.append(f"{label}({value[0] if isinstance(value, tuple) and len(value) == 1 else repr(value)})")
        if self._counts:
            parts.append(f"shared({', '.join(f'{name}={count}' for name, count in self._counts.items())})")
        if self._stream is not None or self._device is not None:
            parts.append(f"on({self._stream or self._device})")
        options = [f"check={self._check!r}"] * (self._check is not None) + ["timed=True"] * self.timed
        options += [f"cooperative={self._cooperative}"] * (self._cooperative is not None)
        options += [f"cluster={self._cluster}"] * (self._cluster is not None)
        options += [f"{name}={value!r}" for name, value in shown(self.run).items()]
        if options:
            parts.append(f"options({', '.join(options)})")
        return ".".join(parts)


_OPTIONS = ("check=", "timed=", "cooperative=", "cluster=", *(f"{name}=" for name in RunOptions._fields[:-1]))


def _unresolved() -> dict[str, Any]:
    return {"_geometries": {}, "_fullest": {}, "_fitting": _NOTHING_FITS, "_usual": None}


def _rebuild(kernel: Launchable, values: dict[str, Any]) -> Launcher:
    return Launcher(kernel)._with(**values)
