"""Bodies that attract each other: one step of all pairs, by tiles in shared memory.

A body is a NamedTuple of two vectors, as `struct { float4 position, velocity; }` in CUDA C++: each is loaded at once.
The way is that of Nyland, Harris and Prins, Fast N-Body Simulation with CUDA (GPU Gems 3, chapter 31, 2007).
"""

import sys
from typing import NamedTuple

import numpy as np

import kaio
from kaio import In, Out, f32, f32x4

THREADS = 128
SOFTENING = 1e-3
"""Keeps the force between close bodies finite, and that of a body on itself zero."""


class Body(NamedTuple):
    """Position and velocity; the mass is the last lane of the position, and that of the velocity is 0."""

    position: f32x4
    velocity: f32x4


@kaio.func
def pulled(total, here, there):
    """The acceleration at `here`, with that towards `there`."""
    d = there - here
    inverse = kaio.rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + SOFTENING)
    pull = there.w * inverse * inverse * inverse
    return total + d * f32x4(pull, pull, pull, 0)


@kaio.kernel(launch_bounds=THREADS)
def step(bodies: In[Body], moved: Out[Body], dt: f32):
    """A body a thread. Each thread of a block brings one body of a tile, then all are pulled by all of the tile.

    CHECK: .visible .entry step(
    CHECK: ld.global.nc.v4.f32
    CHECK: st.shared.v4.f32
    CHECK: bar.sync
    CHECK: ld.shared.v4.f32
    CHECK: rsqrt.approx
    CHECK: bar.sync
    CHECK: st.global.v4.f32
    """
    tile = kaio.shared_mem(THREADS, f32x4)
    i, thread = kaio.grid(1), kaio.thread_idx.x
    here = bodies[min(i, bodies.size - 1)]  # a thread beyond the last body helps to load
    pull = f32x4(0)
    for start in range(0, bodies.size, THREADS):
        # What is beyond the last body has no mass.
        tile[thread] = bodies[start + thread].position if start + thread < bodies.size else f32x4(0)
        kaio.bar_sync()
        for k in kaio.unrolled(range(THREADS), 4):
            pull = pulled(pull, here.position, tile[k])
        kaio.bar_sync()
    if i < moved.size:
        velocity = here.velocity + pull * dt
        moved[i] = Body(here.position + velocity * dt, velocity)


def main(device: kaio.Device | None = None, count: int = 500, dt: float = 0.01) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(7)
    position, mass = rng.normal(size=(count, 3)), rng.uniform(size=count)

    moved = device.alloc_zeros(count, Body)
    host = np.zeros(count, moved.dtype.numpy)
    host["position"] = [(*place, weight) for place, weight in zip(position, mass, strict=True)]
    step.over(count).block(THREADS).launch(device.alloc_from(host), moved, dt).wait()

    apart = position[None] - position[:, None]
    pull = np.einsum("ijc,j,ij->ic", apart, mass, ((apart**2).sum(-1) + SOFTENING) ** -1.5)
    found = np.array(moved.to_host().tolist())
    np.testing.assert_allclose(found[:, 1, :3], pull * dt, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[:, 0, :3], position + pull * dt * dt, rtol=1e-5, atol=1e-5)
    assert np.array_equal(found[:, 0, 3], mass.astype(np.float32))
    print(f"nbody: {count} bodies on {device.name}: as NumPy's to 1e-3")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
