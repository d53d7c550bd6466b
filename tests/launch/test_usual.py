"""The function that is generated for a signature: it packs what the general way packs, and leaves all else to it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

import kaio
from kaio import D0, D2, D3, Const, In, InOut, Out, Strided, bool_, c64, f16, f32, f64, i8, i32, u64
from kaio.dsl.types import EnumAnnotation, RecordAnnotation
from kaio.launch.arguments import Parameters
from kaio.launch.usual import Usual
from kaio.program import Program
from tests.launch.fakes import fake

T = TypeVar("T", f32, f64)
PLACES = (0, 64)
_kept: list[Any] = []


class Pair(NamedTuple):
    first: f32
    second: i32


class Mode(enum.IntEnum):
    SLOW = 1
    FAST = 7


@dataclass
class Sink:
    """A stream that notes what is sent to it."""

    sent: list[tuple[bytes, tuple[Any, ...], tuple[Any, ...]]] = field(default_factory=list)

    def send(self, plan: object, arguments: bytes, read: tuple[Any, ...], written: tuple[Any, ...]) -> str:
        self.sent.append((arguments, read, written))
        return "sent"


@dataclass
class Case:
    """A signature with arguments that are usual for it."""

    parameters: Parameters
    program: Program
    args: tuple[Any, ...]
    places: tuple[int, ...] = ()

    def usual(self, sink: Sink, is_fresh: bool = True) -> Usual | None:
        make = self.parameters.usual(self.parameters.check(self.args, {}), bool(self.places))
        if make is None:
            return None
        of_plan = {"plan": object(), "is_fresh": lambda: is_fresh, "is_fixed": False, "get_entered": lambda: ()}
        return make(**of_plan, default=sink, pack=self.program.block.pack, places=self.places)

    def general(self, args: tuple[Any, ...]) -> tuple[bytes, tuple[Any, ...], tuple[Any, ...]]:
        call = self.parameters.check(args, {})
        packed = self.parameters.pack(self.program.block.pack, call, self.places)
        read = tuple(buffer.memory for buffer, access in call.uses if access == "In")
        return packed, read, tuple(buffer.memory for buffer, access in call.uses if access != "In")


def case(*args: Any, dtypes: Any = None, places: tuple[int, ...] = (), **annotations: Any) -> Case:
    """The case of a kernel with these parameters."""
    kinds = {Pair: RecordAnnotation(Pair), Mode: EnumAnnotation(Mode)}
    parameters = fake("kernel", **{name: kinds.get(of, of) for name, of in annotations.items()}).parameters
    call = parameters.check(args, {})
    specialised = parameters.signature.specialise(parameters.consts(call), parameters.generic_dtypes(call), 32)
    dynamic = (kaio.program.DynamicArray("tile", f32),) * (len(places) // 2)  # type: ignore[attr-defined, arg-type]
    return Case(parameters, Program("kernel", "cpu", specialised.arguments, 32, 0, dynamic=dynamic), args, places)


def buffer(shape: Any, dtype: Any = f32) -> Any:
    """A new buffer of the CPU device, which owns its memory as a GPU does."""
    made = kaio.Device("cpu").alloc_zeros(shape, dtype)
    _kept.append(made.memory.owner)
    made.memory.owner = None
    return made


CASES = {
    "vectors": lambda: case(buffer(8), buffer(9), 2.5, x=In[f32], y=InOut[f32], a=f32),
    "planes": lambda: case(buffer((3, 4), f64), buffer((2, 3, 4), i8), x=In[f64, D2], y=Out[i8, D3]),
    "no axes": lambda: case(buffer(()), x=Out[f32, D0]),
    "whole numbers": lambda: case(buffer(8), 3, np.int64(4), 2**63, x=Out[f32], a=i32, b=i8, c=u64),
    "numbers of few bits": lambda: case(buffer(8), 1.5, True, x=Out[f32], a=f16, b=bool_),
    "numbers of other types": lambda: case(buffer(8), 1, np.float32(2), np.bool_(1), x=Out[f32], a=f32, b=f64, c=bool_),
    "records": lambda: case(buffer(8), Pair(1.0, 2), 1 + 2j, Mode.FAST, x=Out[f32], p=Pair, c=c64, m=Mode),
    "constants": lambda: case(
        buffer(8), 4, True, 0.5, f32, Mode.SLOW,
        x=Out[f32], a=Const[int], b=Const[bool], c=Const[float], d=Const[kaio.DType], m=Const[Mode],
    ),
    "generic": lambda: case(buffer(8, f64), 2.0, x=Out[T], a=T),
    "dynamic shared": lambda: case(buffer(8), 2.0, places=PLACES, x=Out[f32], a=f32),
    "names that Python has too": lambda: case(
        buffer(8), 2.0, 3, True, type=Out[f32], float=f32, int=i32, bool=bool_
    ),
    "many buffers": lambda: case(*(buffer(8) for _ in range(9)), **{f"x{k}": InOut[f32] for k in range(9)}),
}  # fmt: skip


@pytest.fixture(params=CASES)
def known(request: pytest.FixtureRequest) -> Case:
    """Each of them in turn."""
    return CASES[request.param]()  # type: ignore[no-any-return]


def test_it_packs_and_notes_what_the_general_way_does(known: Case) -> None:
    sink = Sink()
    usual = known.usual(sink)
    assert usual is not None
    assert usual(*known.args) == "sent"
    assert sink.sent == [known.general(known.args)]


def test_it_leaves_what_is_no_argument_of_that_kind_to_the_general_way(known: Case) -> None:
    sink = Sink()
    usual = known.usual(sink)
    assert usual is not None
    for place in range(len(known.args)):
        for wrong in (None, "text", object(), np.zeros(3), buffer((1, 1, 1, 1))):
            assert usual(*known.args[:place], wrong, *known.args[place + 1 :]) is None
    for miscall in (known.args[1:], (*known.args, 1)):
        with pytest.raises(TypeError):
            usual(*miscall)
    assert sink.sent == []


def test_it_leaves_a_kernel_whose_captures_changed_to_the_general_way(known: Case) -> None:
    usual = known.usual(Sink(), is_fresh=False)
    assert usual is not None
    assert usual(*known.args) is None


def test_it_takes_arguments_by_name_and_by_default() -> None:
    known, sink = case(buffer(8), 3.0, 4, x=Out[f32], a=(f32, 2.0), b=(i32, 5)), Sink()
    usual = known.usual(sink)
    assert usual is not None
    x = known.args[0]
    assert usual(x) == usual(x, b=6) == usual(b=7, x=x, a=1) == "sent"
    assert [sent for sent, _, _ in sink.sent] == [
        known.general(args)[0] for args in ((x, 2.0, 5), (x, 2.0, 6), (x, 1, 7))
    ]
    for miscall in ({}, {"x": x, "c": 1}):
        with pytest.raises(TypeError):
            usual(**miscall)


@pytest.mark.parametrize(
    ("kinds", "by_position", "by_name"),
    [
        (("positional", "any", "keyword"), 2, ("b",)),
        (("positional", "positional", "positional"), 3, ()),
        (("positional", "keyword", "keyword"), 1, ("a", "b")),
        (("any", "keyword", "keyword"), 0, ("x", "a", "b")),
    ],
)
def test_it_has_the_kinds_of_parameters_that_the_kernel_has(
    kinds: Any, by_position: int, by_name: tuple[str, ...]
) -> None:
    known, sink = case(buffer(8), 3.0, 4.0, x=Out[f32], a=f32, b=f32), Sink()
    params = [replace(param, kind=kind) for param, kind in zip(known.parameters.params, kinds, strict=True)]
    known.parameters.params = tuple(params)
    usual = known.usual(sink)
    assert usual is not None
    named = dict(zip(("x", "a", "b"), known.args, strict=True))
    assert usual(*known.args[:by_position], **{name: named[name] for name in by_name}) == "sent"
    if by_name:
        with pytest.raises(TypeError):
            usual(*known.args)
    with pytest.raises(TypeError):
        usual(*known.args[:by_position], *known.args, **{name: named[name] for name in by_name})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (f32, 2**24 + 1),
        (f32, 2**24),
        (f32, -3),
        (f64, 2**60 + 1),
        (f32, np.float32(3)),
        (f32, np.float64(1) / 3),
        (f32, np.float32("inf")),
        (f32, True),
        (f32, 10**400),
        (f32, float("nan")),
        (f32, 1e39),
        (f32, float("inf")),
        (i8, 128),
        (i8, 1.0),
        (u64, -1),
        (bool_, 1),
        (Pair, (1.0,)),
        (Mode, 7),
    ],
)
def test_it_leaves_numbers_out_of_range_to_the_general_way(annotation: Any, value: Any) -> None:
    right = {f32: 1.0, f64: 1.0, i8: 1, u64: 1, bool_: True, Pair: Pair(1.0, 2), Mode: Mode.FAST}[annotation]
    known, sink = case(buffer(8), right, x=Out[f32], a=annotation), Sink()
    usual = known.usual(sink)
    assert usual is not None
    usual(known.args[0], value)
    if sink.sent:  # what the general way takes too
        assert sink.sent == [known.general((known.args[0], value))]
    else:
        with pytest.raises(kaio.LaunchError):
            known.general((known.args[0], value))


@pytest.mark.parametrize(
    ("annotation", "value", "other"),
    [(Const[int], 300, 301), (Const[int], 1, True), (Const[float], 0.0, -0.0), (Const[bool], True, 1)],
)
def test_it_leaves_another_constant_to_the_general_way(annotation: Any, value: Any, other: Any) -> None:
    known = case(buffer(8), value, x=Out[f32], a=annotation)
    usual = known.usual(Sink())
    assert usual is not None
    assert usual(*known.args) == "sent"
    assert usual(known.args[0], other) is None


@pytest.mark.parametrize("count", [2, 9])
def test_it_leaves_memory_that_overlaps_to_the_general_way(count: int) -> None:
    buffers = [buffer(8) for _ in range(count)]
    known, sink = case(*buffers, **{f"x{k}": InOut[f32] for k in range(count)}), Sink()
    usual = known.usual(sink)
    assert usual is not None
    assert usual(*buffers[:-1], buffers[0]) is None
    assert usual(*buffers[:-1], buffers[0][2:5]) is None
    host = np.zeros(8, np.float32)
    ours = [kaio.Device("cpu").import_array(host[k : k + 4]) for k in (0, 3)]
    assert usual(*buffers[:-2], *ours) is None


def test_it_takes_read_only_inputs_that_are_the_same_memory() -> None:
    x = buffer(8)
    known, sink = case(x, x, buffer(8), x=In[f32], z=In[f32], y=Out[f32]), Sink()
    usual = known.usual(sink)
    assert usual is not None
    assert usual(*known.args) == "sent"


def test_it_leaves_read_only_and_strided_buffers_to_the_general_way() -> None:
    known = case(buffer(8), x=Out[f32])
    usual = known.usual(Sink())
    assert usual is not None
    host = np.zeros(8, np.float32)
    host.flags.writeable = False
    assert usual(kaio.Device("cpu").import_array(host)) is None
    assert usual(buffer(16)[::2]) is None


def test_some_signatures_have_none() -> None:
    assert case(buffer(8), x=In[f32, kaio.D1, Strided]).usual(Sink()) is None
    assert case(2.0, a=f32).usual(Sink()) is None
    assert case(buffer(8), np.float64(2), x=Out[f32], a=T).usual(Sink()) is None
