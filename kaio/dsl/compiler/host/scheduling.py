"""The block scheduler of the CPU device, in kaio's own language. `scheduler.py` compiles it.

A worker takes chunks of blocks from a counter that all workers share. In a block whose threads may wait, it starts them
all, then resumes those that wait at a barrier once every thread that has not returned is there (`scheduling_blocks`).
Where threads also wait for others of their warp, each warp runs alone until none of its lanes can go on without the
block (`scheduling_warps`). Blocks that wait for each other run in turns (`scheduling_groups`), and a launch with a
schedule lets all of them go on in a seeded order (`scheduling_order`).
"""

# mypy: disable-error-code="arg-type, assignment, no-untyped-call, no-untyped-def"
# (Kernel functions: an int literal becomes an i32, and device functions take their arguments' types.)

from __future__ import annotations

from kaio import host_abi as abi
from kaio.dsl.atomic import atomic_add, atomic_max
from kaio.dsl.compiler.host.scheduling_blocks import run_block
from kaio.dsl.compiler.host.scheduling_groups import run_groups
from kaio.dsl.compiler.host.shadow_clocks import begin_blocks
from kaio.dsl.compiler.host.shadow_order import begin_knowing
from kaio.dsl.compiler.host.shadow_rules import settle_blocks
from kaio.dsl.types import D2, In, InOut
from kaio.dtypes import i32, i64

__all__ = ["worker"]

# Positions in the block context, counted in i32 and in i64, and in the control block.
_BLOCK, _BLOCK_IDX, _GRID_DIM, _FAULT = abi.BLOCK // 8, abi.BLOCK_IDX // 4, abi.GRID_DIM // 4, abi.FAULT // 4
_STOP, _FINISHING = abi.STOP // 8, abi.FINISHING


def worker(
    context: i64,
    c: InOut[i32],
    q: InOut[i64],
    words: InOut[i32, D2],
    kinds: In[i32],
    reach: In[i64],
    start: i64,
    run: i64,
    waits: i32,
    blocks: i64,
    group: i32,
    most: i32,
    chunk: i64,
    stride: i64,
    offset: i64,
    control: InOut[i64],
    progress: InOut[i64],
) -> None:
    """Run blocks until there are none left, or one faulted. `control` is the next block, and whether to stop.

    `waits`: 0 where no thread waits, 1 where they wait at barriers, 2 where also for others of their warp. With a
    `group` it is groups of so many blocks that are counted, of which up to `most` live at a time.

    Blocks are handed out in order and a chunk that was taken is run to its first fault, so the lowest block that faults
    is always reached, by whichever worker.
    """
    if group > 0:
        run_groups(
            context, c, q, words, kinds, reach, start, run, waits, blocks, group, most, chunk, stride, offset, control,
            progress,
        )  # fmt: skip
        return
    while control[_STOP] == 0:
        block = atomic_add(control, 0, chunk)
        if block >= blocks:
            return
        stop = min(block + chunk, blocks)
        x = i32(block % c[_GRID_DIM])
        y = i32(block // c[_GRID_DIM] % c[_GRID_DIM + 1])
        z = i32(block // c[_GRID_DIM] // c[_GRID_DIM + 1])
        while block < stop:
            q[_BLOCK] = block
            c[_BLOCK_IDX] = x
            c[_BLOCK_IDX + 1] = y
            c[_BLOCK_IDX + 2] = z
            begin_blocks(c, words, 1)
            begin_knowing(c, words, 1)
            run_block(context, c, words, kinds, reach, start, run, waits, 0, control, progress)
            if settle_blocks(c, q, 1) | c[_FAULT] != 0:
                atomic_max(control, _STOP, i64(_FINISHING))
                return
            if control[_STOP] > _FINISHING:
                return
            progress[0] += 1
            block += 1
            x += 1
            if x == c[_GRID_DIM]:
                x = 0
                y += 1
                if y == c[_GRID_DIM + 1]:
                    y = 0
                    z += 1
