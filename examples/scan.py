"""Running sums of any number of integers in one pass: blocks hand their sums on while they run.

Each block adds up its own part, publishes that sum, and looks back over the blocks before it until one has published
all that came before (Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016). A sum and
what it is of are one number of 64 bits, so that nobody sees the one without the other.
"""

import sys

import numpy as np

import kaio
from kaio import In, InOut, Out, i32, u32, u64

THREADS = 256
OWN, ALL = 1, 2
"""What a published sum is of: the block's own part, or all parts up to it. 0: nothing is published yet."""


@kaio.func
def publish(state: InOut[u64], part: i32, what: i32, total: i32) -> None:
    """Let other blocks see a sum."""
    kaio.store(state, part, u64(u32(what)) << 32 | u64(u32(total)), volatile=True)


@kaio.func
def sum_before(state: InOut[u64], part: i32):
    """The sum of all parts before this one, as soon as they are published."""
    total, at = 0, part - 1
    while at >= 0:
        seen = kaio.load(state, at, volatile=True)  # anew each time: another block writes it meanwhile
        if seen >> 32 != 0:
            total += i32(u32(seen & 0xFFFFFFFF))
            at = -1 if seen >> 32 == ALL else at - 1
    return total


@kaio.kernel(launch_bounds=THREADS)
def scan(x: In[i32], sums: Out[i32], tickets: InOut[i32], state: InOut[u64]):
    """An element a thread. Blocks take their parts in the order in which they start, so nobody waits for one to come.

    CHECK: .visible .entry scan(
    CHECK: atom.global{{.*}}.add
    CHECK: shfl.sync.up.b32
    CHECK: st.volatile.global.b64
    CHECK: ld.volatile.global.b64
    """
    shared = kaio.shared_mem(2, i32)
    thread = kaio.thread_idx.x
    if thread == 0:
        shared[0] = kaio.atomic_add(tickets, 0, 1)
    kaio.bar_sync()
    part = shared[0]
    i = part * THREADS + thread
    own = kaio.block_scan_sum(x[i] if i < x.size else 0)
    if thread == THREADS - 1:
        publish(state, part, OWN, own)
        before = sum_before(state, part)
        publish(state, part, ALL, before + own)
        shared[1] = before
    kaio.bar_sync()
    if i < x.size:
        sums[i] = shared[1] + own


def main(device: kaio.Device | None = None, count: int = 100_001) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    x = np.random.default_rng(8).integers(-1000, 1000, count, np.int32)

    sums = device.alloc_empty(count, i32)
    tickets, state = device.alloc_zeros(1, i32), device.alloc_zeros(-(-count // THREADS), u64)
    scan.over(count).block(THREADS).launch(device.alloc_from(x), sums, tickets, state).wait()

    assert np.array_equal(sums.to_host(), np.cumsum(x, dtype=np.int32))
    print(f"scan of {count} numbers on {device.name}: equal to NumPy")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
