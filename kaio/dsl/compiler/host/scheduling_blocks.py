"""How the CPU device runs one block, in kaio's own language: until its threads have returned or wait for others."""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio.dsl.compiler.host.scheduling_order import let_run, order_warps
from kaio.dsl.compiler.host.scheduling_steps import native
from kaio.dsl.compiler.host.scheduling_warps import report, report_stuck, run_warp
from kaio.dsl.compiler.host.shadow_clocks import pass_barrier
from kaio.dsl.compiler.host.shadow_order import meet_barrier
from kaio.dtypes import i32, i64

__all__ = ["run_block"]

# Positions in the block context, counted in i32.
_THREADS, _FAULT, _FAULT_INDEX, _FAULT_SIZE = (
    abi.THREADS // 4, abi.FAULT // 4, abi.FAULT_INDEX // 4, abi.FAULT_SIZE // 4,
)  # fmt: skip
_COUNT, _ARRIVED = abi.COUNT // 4, abi.ARRIVED // 4
_NAMED_COUNT, _NAMED_TURN, _NAMED_THREADS = abi.NAMED_COUNT // 4, abi.NAMED_TURN // 4, abi.NAMED_THREADS // 4
_ORDERED, _PARTIAL = abi.ORDERED // 4, abi.PARTIAL // 4
_STATE, _GIVEN, _WARP_ORDER = abi.STATE, abi.GIVEN, abi.WARP_ORDER
_STOP, _ENDING = abi.STOP // 8, abi.ENDING
_WHOLE, _NAMED, _CLUSTER, _PAUSE, _WARP = abi.WHOLE, abi.NAMED, abi.CLUSTER, abi.PAUSE, abi.WARP
_DIVERGED, _WENT_ROUND, _SHORT = abi.DIVERGED, abi.WENT_ROUND, abi.SHORT


def run_block(context, c, words, kinds, reach, step, run, waits, state, control, progress):
    """Run one block until it waits for others, at the site that is given, or all of its threads have returned: 0.

    `step` those in `state`, then `run`. It is 0, too, where something is wrong.
    """
    if waits == 0:
        native(run, context, 0, 0, 0)
        return 0
    if waits == 1:
        return run_threads(context, c, words, kinds, reach, step, run, state, control, progress)
    return run_warps(context, c, words, kinds, reach, step, run, state, control, progress)


def run_threads(context, c, words, kinds, reach, step, run, state, control, progress):
    """Run a block whose threads wait at barriers of the whole block, and for nothing else."""
    threads = c[_THREADS]
    native(step, context, 0, threads, state)
    while c[_FAULT] == 0 and control[_STOP] < _ENDING:
        state = common_state(words, threads)
        if state == 0:
            state = meeting_point(c, words, kinds, reach, threads)
        if state <= 0:
            return 0
        if kinds[state] > _WHOLE:
            if kinds[state] & 255 > _WHOLE:
                return state
            count(c, words, threads)
        pass_barrier(c, words)
        meet_barrier(c)
        progress[0] += 1
        native(run, context, 0, threads, state)
    return 0


def run_warps(context, c, words, kinds, reach, step, run, state, control, progress):
    """The same of a block whose threads also wait for others of their warp, or for some warps of the block, or pause.

    The place may be one where threads pause: then other blocks have their turn, before all who pause here go on.
    """
    threads = c[_THREADS]
    if state == 0:
        for name in range(16):
            c[_NAMED_COUNT + name] = 0
            c[_NAMED_TURN + name] = 0
    elif kinds[state] & 255 == _PAUSE:
        wake(words, kinds, threads)
        state = 0
    while control[_STOP] < _ENDING:
        if c[_ORDERED] != 0:
            order_warps(c, words, threads)
        for warp in range((threads + 31) // 32):
            first = 32 * (warp if c[_ORDERED] == 0 else words[_WARP_ORDER, warp])
            stop = min(first + 32, threads)
            let_run(step, context, c, words, first, stop, state)
            run_warp(context, c, words, kinds, run, first, stop, progress)
            if c[_FAULT] != 0:
                return 0
        step, state = run, common_state(words, threads)
        if state < 0:
            return 0
        if state == 0 or kinds[state] & 255 > _WHOLE:
            if release(c, words, kinds, threads) != 0:
                progress[0] += 1
                state = 0
                continue
            paused = pause(words, kinds, threads)
            if paused > 0:
                return paused
            state = meeting_point(c, words, kinds, reach, threads)
            if state <= 0:
                return 0
        if kinds[state] > _WHOLE:
            if kinds[state] & 255 > _WHOLE:
                return state
            count(c, words, threads)
        pass_barrier(c, words)
        meet_barrier(c)
        progress[0] += 1
    return 0


def common_state(words, threads):
    """The state that all threads of the block are in, 0 where they are in several."""
    state = words[_STATE, 0]
    same = 0
    for thread in range(threads):
        same += i32(words[_STATE, thread] == state)
    return state if same == threads else 0


def count(c, words, threads):
    """How many threads have come to a barrier, and how many gave it something else than 0."""
    arrived, true = 0, 0
    for thread in range(threads):
        if words[_STATE, thread] > 0:
            arrived += 1
            true += i32(words[_GIVEN, thread] != 0)
    c[_ARRIVED] = arrived
    c[_COUNT] = true


def release(c, words, kinds, threads):
    """Let go who waits at a named barrier that was completed meanwhile; gives how many."""
    found = 0
    for thread in range(threads):
        state = words[_STATE, thread]
        is_named = state > 0 and kinds[max(state, 0)] & 255 == _NAMED
        if is_named and c[_NAMED_TURN + (words[_GIVEN, thread] & 15)] != words[_GIVEN + 1, thread]:
            words[_STATE, thread] = 0
            found += 1
    return found


def pause(words, kinds, threads):
    """The place of a thread that pauses, which goes on once all others of its block and group have; 0 for none."""
    for thread in range(threads):
        state = words[_STATE, thread]
        if state > 0 and kinds[state] & 255 == _PAUSE:
            return state
    return 0


def wake(words, kinds, threads):
    """Let all go on who pause."""
    for thread in range(threads):
        state = words[_STATE, thread]
        if state > 0 and kinds[max(state, 0)] & 255 == _PAUSE:
            words[_STATE, thread] = 0


def meeting_point(c, words, kinds, reach, threads):
    """The place that the threads wait at while some have returned; 0 where none waits, or they cannot go on."""
    leader = -1
    for thread in range(threads):
        state = words[_STATE, thread]
        if state > 0:
            if kinds[state] & 255 >= _WARP:
                return report_stuck(c, words, kinds, thread, threads)
            if leader < 0:
                leader = thread
    if leader < 0:
        return 0
    for thread in range(threads):
        state = words[_STATE, thread]
        if state > 0 and kinds[state] & 255 == _NAMED:
            return report_short(c, words, thread, threads)
    for thread in range(threads):
        state = words[_STATE, thread]
        if state > 0 and state != words[_STATE, leader]:
            return report(c, _DIVERGED, leader, thread)
    state = words[_STATE, leader]
    all_must_come = kinds[state] & 255 >= _CLUSTER or kinds[state] & 255 == _WHOLE
    for thread in range(threads):
        other = words[_STATE, thread]
        # An early return is fine. A thread that left where everyone passes who was at the barrier has gone round it.
        if other < 0 and (all_must_come or (c[_PARTIAL] == 0 and reach[state] == i64(1) << (-1 - other))):
            return report(c, _WENT_ROUND, leader, thread)
    return state


def report_short(c, words, thread, threads):
    """Record a named barrier to which not enough threads come, and one of the threads that wait elsewhere."""
    name = words[_GIVEN, thread] & 15
    c[_FAULT_INDEX] = c[_NAMED_COUNT + name]
    c[_FAULT_INDEX + 1] = 0
    c[_FAULT_SIZE] = c[_NAMED_THREADS + name]
    c[_FAULT_SIZE + 1] = name
    for other in range(threads):
        state = words[_STATE, other]
        if state > 0 and state != words[_STATE, thread]:
            return report(c, _SHORT, thread, other)
    return report(c, _SHORT, thread, thread)
