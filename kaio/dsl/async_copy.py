"""Copies into shared memory that a thread does not wait for until it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaio.dsl.elements import check_index
from kaio.dsl.intrinsic import Resolved, intrinsic
from kaio.dsl.rule_error import RuleError
from kaio.dsl.spans import check_alignment, check_span
from kaio.dsl.types import In, InOut, Out
from kaio.dsl.values import NONE, ArrayType, BufferType, Type, Weak, show

if TYPE_CHECKING:
    from kaio.dsl.compiler.emission.emit import Emitter
    from kaio.dsl.compiler.ir import TypedCall

__all__ = ["cp_async", "cp_async_commit", "cp_async_wait"]

_SINCE = "sm_80"
_SIZES = (4, 8, 16)  # PTX ISA, "cp.async": bytes of one copy, at addresses that are multiples of them
_MOST_GROUPS = 2**31 - 1


def _copy_typing(target: Type, target_index: Type, source: Type, source_index: Type, count: Type) -> Resolved:
    to, of = check_index(target, target_index, "target"), check_index(source, source_index, "source")
    if to.space != "shared":
        raise RuleError(f"`cp_async` copies into shared memory, and `target` is {show(to)}", "copy with `=`")
    if not isinstance(of, BufferType) or of.space != "global":
        raise RuleError(f"`cp_async` copies from a buffer, and `source` is {show(of)}", "copy with `=`")
    if to.dtype is not of.dtype:
        raise RuleError(f"`cp_async` copies bytes, and `target` is of {show(to.dtype)}, `source` of {show(of.dtype)}")
    number = count.value if isinstance(count, Weak) else None
    if not isinstance(number, int):
        raise RuleError(f"`cp_async` copies a number of elements that is an int literal, not {show(count)}")
    itemsize = to.dtype.itemsize
    if number * itemsize not in _SIZES:
        takes = " or ".join(str(size // itemsize) for size in _SIZES if size % itemsize == 0 and size >= itemsize)
        raise RuleError(
            f"`cp_async` copies 4, 8 or 16 bytes, and {number} elements of {show(to.dtype)} are {number * itemsize}",
            f"copy {takes} of them" if takes else None,
        )
    check_span(to, target_index, number, "target")
    check_span(of, source_index, number, "source")
    return Resolved((target, target_index, source, source_index, count), NONE, (number,))


def _places(e: Emitter, call: TypedCall, *values: Any) -> tuple[Any, Any, int]:
    """Where the copy goes and comes from, checked, and its bytes."""
    (count,) = call.static
    found = []
    for k, name in ((0, "target"), (2, "source")):
        type_ = call.operands[k]
        assert isinstance(type_, BufferType | ArrayType)
        called = e.assigning if k == 0 else e.called(call.arguments[k], name)
        found.append(e.address(values[k], type_, values[k + 1], call.operands[k + 1], called, count))
    type_ = call.operands[0]
    assert isinstance(type_, BufferType | ArrayType)
    return found[0], found[1], count * type_.dtype.itemsize


def _copy_cuda(e: Emitter, call: TypedCall, *values: Any) -> None:
    from llvmlite import ir as llvm

    from kaio.dsl.compiler.cuda.assembly import assemble

    target, source, nbytes = _places(e, call, *values)
    places = [e.b.ptrtoint(pointer, llvm.IntType(64)) for pointer in (target, source)]
    level = "cg" if nbytes == 16 else "ca"  # past the L1, where nobody else looks for it; smaller ones must go through
    assemble(e, f"cp.async.{level}.shared.global [$0], [$1], {nbytes};", [], places, memory=True)


def _copy_host(e: Emitter, call: TypedCall, *values: Any) -> None:
    from llvmlite import ir as llvm

    from kaio.dsl.compiler.emission.access import access_to

    target, source, nbytes = _places(e, call, *values)
    for pointer, name in ((target, "goes to"), (source, "comes from")):
        check_alignment(e, pointer, nbytes, f"`cp_async` of {nbytes} bytes {name}")
    to_type, of_type = call.operands[0], call.operands[2]
    assert isinstance(to_type, BufferType | ArrayType)
    assert isinstance(of_type, BufferType | ArrayType)
    whole = llvm.IntType(8 * nbytes).as_pointer()
    of = e.b.bitcast(source, whole)
    e.target.touch(e, of, access_to("read", of_type, e.called(call.arguments[2], "source"), "async"))
    copied = e.b.load(of, align=1)
    to = e.b.bitcast(target, whole)
    e.target.touch(e, to, access_to("write", to_type, e.assigning, "async"))
    e.b.store(copied, to, align=1)


_EXAMPLE = """\
tile = kaio.shared_mem(64, kaio.f32)
kaio.cp_async(tile, i, x, i, 1)
kaio.cp_async_commit()
kaio.cp_async_wait(0)
out[i] = tile[i]"""


@intrinsic(
    _copy_typing, cuda=_copy_cuda, host=_copy_host, since=_SINCE, example=_EXAMPLE, ptx="cp.async.ca.shared.global"
)
def cp_async(
    target: InOut[Any, Any],
    target_index: int | tuple[int, ...],
    source: In[Any, Any] | Out[Any, Any] | InOut[Any, Any],
    source_index: int | tuple[int, ...],
    count: int,
) -> None:
    """Begin to copy `count` elements, of 4, 8 or 16 bytes together, from a buffer into shared memory.

    They lie side by side, from `source_index` on along the last axis, and go to `target_index` and those behind it;
    both places are multiples of the bytes copied. The elements are there for this thread after `cp_async_commit` and
    `cp_async_wait`, and for the others of the block after a `bar_sync` behind that. On the CPU device the copy is made
    at once, and `check="full"` finds what reads it, or writes where it comes from or goes to, too early.
    """


def _commit_cuda(e: Emitter, call: TypedCall) -> None:
    from kaio.dsl.compiler.cuda.assembly import assemble

    assemble(e, "cp.async.commit_group;", [], [], memory=True)


# On the host the copies were made where they began; what orders them is looked at.
def _commit_host(e: Emitter, call: TypedCall) -> None:
    e.target.orders.commit_copies(e)


def _wait_host(e: Emitter, call: TypedCall, groups: Any) -> None:
    e.target.orders.wait_for_copies(e, call.static[0])


@intrinsic(
    lambda: Resolved((), NONE),
    cuda=_commit_cuda,
    host=_commit_host,
    since=_SINCE,
    example=_EXAMPLE,
    ptx="cp.async.commit_group",
)
def cp_async_commit() -> None:
    """Make a group of the copies that this thread has begun since the last one, for `cp_async_wait` to count."""


def _wait_typing(groups: Type) -> Resolved:
    number = groups.value if isinstance(groups, Weak) else None
    if not isinstance(number, int) or not 0 <= number <= _MOST_GROUPS:
        raise RuleError(
            f"`cp_async_wait` takes an int literal from 0 on, not {show(groups)}", "`cp_async_wait(0)` waits for all"
        )
    return Resolved((groups,), NONE, (number,))


def _wait_cuda(e: Emitter, call: TypedCall, groups: Any) -> None:
    from kaio.dsl.compiler.cuda.assembly import assemble

    assemble(e, f"cp.async.wait_group {call.static[0]};", [], [], memory=True)


@intrinsic(_wait_typing, cuda=_wait_cuda, host=_wait_host, since=_SINCE, example=_EXAMPLE, ptx="cp.async.wait_group 0")
def cp_async_wait(groups: int) -> None:
    """Wait until at most so many of this thread's groups of copies are under way, the latest ones; 0 waits for all."""
