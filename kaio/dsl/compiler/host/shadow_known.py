"""What a thread knows to have happened, in kaio's own language."""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio import order_abi as order
from kaio import shadow_abi as shadow
from kaio.dsl.compiler.host.shadow_async import copy_time
from kaio.dsl.compiler.host.shadow_order import tell
from kaio.dtypes import i32, i64

__all__ = ["is_known", "is_of_before", "is_seen", "is_told"]

_BASE, _FIRST, _THREADS = shadow.BASE // 4, shadow.FIRST // 4, abi.THREADS // 4
_BLOCK_IDX, _GRID_DIM, _CLUSTER_DIM = abi.BLOCK_IDX // 4, abi.GRID_DIM // 4, abi.CLUSTER_DIM // 4
_MET_GRID, _MET_CLUSTER, _FIRST_GROUP = order.MET_GRID // 4, order.MET_CLUSTER // 4, order.FIRST_GROUP // 4
_KNOWN, _KNOWN_WARPS, _KNOWN_BLOCK, _KNOWN_BOUND = (
    shadow.KNOWN, order.KNOWN_WARPS, order.KNOWN_BLOCK, order.KNOWN_BOUND,
)  # fmt: skip
_TOLD, _TELLING, _KNOWS, _GROUP_TIME = order.TOLD // 4, order.TELLING // 4, order.KNOWS, order.GROUP_TIME


def is_known(c, words, thread, who, when):
    """1 if what thread `who` of the launch did then happened before what `thread` of this block does now."""
    if when >= _GROUP_TIME:
        return is_copy_known(c, words, thread, ~who, when - _GROUP_TIME)
    return is_told(c, words, thread, who, when, _KNOWS)


def is_told(c, words, thread, who, when, question):
    """The same of what is no copy, with KNOWS or SEES for the question to the runtime."""
    if is_seen(c, words, thread, who, when) != 0:
        return 1
    is_own = c[_FIRST] <= who and who < c[_FIRST] + c[_THREADS]
    if c[_TOLD] == 0 or (is_own and when > c[_TELLING]):
        return 0
    return tell(c, question, thread, i64(who), when)


def is_seen(c, words, thread, who, when):
    """The same, where the runtime need not be asked: 0 may be wrong."""
    other = who - c[_FIRST]
    if other == thread or when == 0:
        return 1
    if 0 <= other < c[_THREADS]:
        is_of_warp = other >> 5 == thread >> 5 and when <= words[_KNOWN + (other & 31), thread]
        is_told = c[_TOLD] != 0 and when < words[_KNOWN_WARPS + (other >> 5), thread]
        return i32(when < c[_BASE] or is_of_warp or is_told)
    block = who // c[_THREADS]
    is_told = c[_TOLD] != 0 and words[_KNOWN_BLOCK, thread] == block and when < words[_KNOWN_BOUND, thread]
    return i32(is_told or when < c[_MET_GRID] or (when < c[_MET_CLUSTER] and is_in_cluster(c, block)))


def is_in_cluster(c, block):
    """Whether a block is of the cluster of this one."""
    width, height = c[_GRID_DIM], c[_GRID_DIM + 1]
    x = block % width // c[_CLUSTER_DIM] == c[_BLOCK_IDX] // c[_CLUSTER_DIM]
    y = block // width % height // c[_CLUSTER_DIM + 1] == c[_BLOCK_IDX + 1] // c[_CLUSTER_DIM + 1]
    return x and y and block // width // height // c[_CLUSTER_DIM + 2] == c[_BLOCK_IDX + 2] // c[_CLUSTER_DIM + 2]


def is_copy_known(c, words, thread, who, group):
    """The same of an asynchronous copy: its thread has waited for it, and that is known.

    Of a thread of another block it is not known when it waited: that it met with this one since it began must do.
    """
    other = who - c[_FIRST]
    if other < 0 or other >= c[_THREADS]:
        if c[_MET_GRID] != 0 or (c[_MET_CLUSTER] != 0 and is_in_cluster(c, who // c[_THREADS])):
            return 1
        return 0 if c[_TOLD] == 0 else tell(c, _KNOWS, thread, i64(who), 0)
    if group < c[_FIRST_GROUP]:
        return 1
    time = copy_time(c, words, other, group)
    if time == 0:
        return 0
    return is_told(c, words, thread, who, time, _KNOWS)


def is_of_before(c, when, first):
    """Whether what a cell of shared memory keeps is of a block that was here before."""
    return when < first or (when >= _GROUP_TIME and when - _GROUP_TIME < c[_FIRST_GROUP])
