"""Kernels awaited from asyncio: several requests are on their way at once, none of them holds the event loop.

Each request asks for the energy of a signal: its mean is taken off, a Hann window laid over it, its squares summed.
Three kernels; each awaits the one before it, because the host needs the mean in between.
"""

import asyncio
import math
import sys

import numpy as np

import kaio
from kaio import In, InOut, f32, f64


@kaio.kernel
def sum_of(signal: In[f32], total: InOut[f64]):
    """Add all of `signal` to ``total[0]``, first by thread, then across threads with an atomic.

    CHECK: .visible .entry sum_of(
    CHECK: ld.global{{.*}}.f32
    CHECK: {{atom|red}}.global{{.*}}add.f64
    """
    mine = f64(0)
    for i in range(kaio.grid(1), signal.size, kaio.grid_dim.x * kaio.block_dim.x):
        mine += signal[i]
    kaio.atomic_add(total, 0, mine)


@kaio.kernel
def centre_and_window(signal: InOut[f32], mean: f32):
    """Take the mean off and lay a Hann window over what is left.

    CHECK: .visible .entry centre_and_window(
    CHECK: ld.global.f32
    CHECK: st.global.f32
    """
    i = kaio.grid(1)
    if i < signal.size:
        window = 0.5 - 0.5 * math.cos(2.0 * math.pi * f32(i) / f32(signal.size))
        signal[i] = (signal[i] - mean) * window


@kaio.kernel
def energy_of(signal: In[f32], energy: InOut[f64]):
    """Add the squares of `signal` to ``energy[0]``.

    CHECK: .visible .entry energy_of(
    CHECK: fma.rn.f64
    CHECK: {{atom|red}}.global{{.*}}add.f64
    """
    mine = f64(0)
    for i in range(kaio.grid(1), signal.size, kaio.grid_dim.x * kaio.block_dim.x):
        sample = f64(signal[i])
        mine += sample * sample
    kaio.atomic_add(energy, 0, mine)


async def energy(device: kaio.Device, samples: np.ndarray) -> float:
    """The windowed energy of one signal; the event loop is free while the device works."""
    n = samples.size
    threads = min(n, 4096)
    signal, total, result = device.alloc_from(samples), device.alloc_zeros(1, f64), device.alloc_zeros(1, f64)
    await sum_of.over(threads).launch(signal, total)
    await centre_and_window.over(n).launch(signal, total.to_host()[0] / n)
    await energy_of.over(threads).launch(signal, result)
    return float(result.to_host()[0])


async def serve(device: kaio.Device, signals: list[np.ndarray]) -> list[float]:
    """Answer all requests at once."""
    return await asyncio.gather(*(energy(device, signal) for signal in signals))


def expected_energy(samples: np.ndarray) -> float:
    """The same by NumPy, in f64."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(samples.size) / samples.size)
    return float(np.sum(((samples - samples.mean(dtype=np.float64)) * window) ** 2))


def main(device: kaio.Device | None = None) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    random = np.random.default_rng(4)
    signals = [random.normal(3, 1, n).astype(np.float32) for n in (1, 500, 30_000)]

    answers = asyncio.run(serve(device, signals))

    np.testing.assert_allclose(answers, [expected_energy(signal) for signal in signals], rtol=1e-4, atol=1e-12)
    print(f"{len(signals)} requests of three kernels each on {device.name}: equal to NumPy to 1e-4")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
