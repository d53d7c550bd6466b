"""The loops over the threads of a block: `k_plain`, and `k_start` and `k_run` for kernels whose threads wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir as llvm

from kaio import host_abi as abi
from kaio.dsl.compiler.emission.declared import call
from kaio.dsl.compiler.host.host_body import Body
from kaio.dsl.compiler.host.host_context import I32, I64, POINTER, REGISTERS, VOID, field_of, frame_of, load_arguments
from kaio.dsl.compiler.host.host_threads import Thread
from kaio.dsl.compiler.host.split_body import SplitBody

__all__ = ["emit_k_plain", "emit_k_start_and_run"]


_RANGES = ((abi.BLOCK_DIM, 1, abi.MAX_THREADS + 1), (abi.GRID_DIM, 1, -(2**31)), (abi.BLOCK_IDX, 0, 2**31 - 1))


@dataclass
class _Launch:
    """What every thread of a block gets: index registers, shared memory, arguments."""

    registers: list[llvm.Value]
    shared: llvm.Value
    arguments: list[llvm.Value]


def _define(module: llvm.Module, name: str) -> tuple[llvm.IRBuilder, llvm.Value, llvm.Value, llvm.Value, llvm.Value]:
    function = llvm.Function(module, llvm.FunctionType(VOID, [POINTER, I32, I32, I32]), name)
    return llvm.IRBuilder(function.append_basic_block("entry")), *function.args


def _load_launch(body: Thread, b: llvm.IRBuilder, context: llvm.Value) -> _Launch:
    registers = []
    for offset, low, high in _RANGES:
        for axis in range(3):
            register = b.load(field_of(b, context, offset + 4 * axis, I32))
            register.set_metadata("range", body.module.add_metadata([I32(low), I32(high)]))
            registers.append(register)
    shared = b.load(field_of(b, context, abi.SHARED, POINTER))
    arguments = load_arguments(b, body.inputs.types, b.load(field_of(b, context, abi.ARGUMENTS, POINTER)))
    return _Launch(registers, shared, arguments)


@contextmanager
def _loop(b: llvm.IRBuilder, start: llvm.Value, stop: llvm.Value, name: str) -> Iterator[llvm.Value]:
    """`for i in range(start, stop)`, at least once."""
    before = b.block
    head, done = b.append_basic_block(name), b.append_basic_block(f"{name}.done")
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I32, name)
    i.add_incoming(start, before)
    yield i
    later = b.add(i, I32(1), flags=("nuw", "nsw"))
    i.add_incoming(later, b.block)
    b.cbranch(b.icmp_unsigned("<", later, stop), head, done)
    b.position_at_end(done)


def emit_k_plain(body: Thread, fast: Body | None) -> None:
    """`k_plain`: the whole block; the fast body where its proof holds."""
    b, context, *_ = _define(body.module, "k_plain")
    launch = _load_launch(body, b, context)
    if fast is None:
        _whole_block(body, b, context, launch)
    else:
        with b.if_else(_proof(fast, b, launch), likely=True) as (proved, open_):
            with proved:
                _whole_block(fast, b, context, launch)
            with open_:
                _whole_block(body, b, context, launch)
    b.ret_void()


def _proof(fast: Body, b: llvm.IRBuilder, launch: _Launch) -> llvm.Value:
    """Whether the fast body may run this block: its proof holds, and strips have no threads left over."""
    assert fast.prover is not None
    holds = fast.prover.emit(b, dict(zip(REGISTERS, launch.registers, strict=True)), launch.arguments)
    if isinstance(fast, SplitBody):
        holds = b.and_(holds, b.icmp_unsigned("==", b.and_(launch.registers[0], I32(fast.strip - 1)), I32(0)))
    return holds


def _whole_block(body: Thread, b: llvm.IRBuilder, context: llvm.Value, launch: _Launch) -> None:
    if isinstance(body, SplitBody):
        b.call(body.run, [context, *launch.registers, launch.shared, *launch.arguments])
    else:
        _plain_loops(body, b, context, launch)


def _plain_loops(body: Thread, b: llvm.IRBuilder, context: llvm.Value, launch: _Launch) -> None:
    nx, ny, nz = launch.registers[:3]
    with _loop(b, I32(0), nz, "z") as z, _loop(b, I32(0), ny, "y") as y:
        row = b.mul(b.add(b.mul(z, ny), y), nx)
        with _loop(b, I32(0), nx, "x") as x:
            thread = b.add(row, x, flags=("nuw", "nsw"))
            b.call(body.function, [context, thread, x, y, z, *launch.registers, launch.shared, *launch.arguments])


def emit_k_start_and_run(body: Thread, fast: Body | None = None) -> None:
    """`k_start` and `k_run`. Where the proof of a fast body holds, that runs the block when its threads are started."""
    b, context, first, stop, _ = _define(body.module, "k_start")
    launch = _load_launch(body, b, context)
    if fast is not None:
        _try_fast(fast, b, context, launch, first)
    nx, ny = launch.registers[:2]
    with _loop(b, first, stop, "thread") as thread:
        row = b.udiv(thread, nx)
        position = [b.urem(thread, nx), b.urem(row, ny), b.udiv(row, ny)]
        handle = b.call(
            body.function, [context, thread, *position, *launch.registers, launch.shared, *launch.arguments]
        )
        b.store(handle, field_of(b, context, abi.LAST_STARTED, POINTER))
    b.ret_void()
    b, context, first, stop, wanted = _define(body.module, "k_run")
    frames, nbytes = (b.load(field_of(b, context, offset, I64)) for offset in (abi.FRAMES, abi.FRAME_NBYTES))
    states = b.bitcast(b.load(field_of(b, context, abi.WORDS, POINTER)), I32.as_pointer())
    with _loop(b, first, stop, "thread") as thread:
        state = b.load(b.gep(states, [thread]))
        with b.if_then(b.icmp_signed("==", state, wanted), likely=True):
            call(b, "llvm.coro.resume", VOID, [frame_of(b, frames, nbytes, thread)])
    b.ret_void()


def _try_fast(fast: Body, b: llvm.IRBuilder, context: llvm.Value, launch: _Launch, first: llvm.Value) -> None:
    """Run the whole block, with its first threads, and let all have returned; a fault is in the context, as always."""
    frames = b.load(field_of(b, context, abi.FRAMES, I64))
    with b.if_then(b.and_(b.icmp_unsigned("!=", frames, I64(0)), _proof(fast, b, launch)), likely=True):
        with b.if_then(b.icmp_unsigned("==", first, I32(0))):
            _whole_block(fast, b, context, launch)
            states = b.bitcast(b.load(field_of(b, context, abi.WORDS, POINTER)), I32.as_pointer())
            with _loop(b, I32(0), b.load(field_of(b, context, abi.THREADS, I32)), "returned") as thread:
                b.store(I32(-1), b.gep(states, [thread]))
        b.ret_void()
