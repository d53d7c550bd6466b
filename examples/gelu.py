"""The Gaussian error linear unit of transformers, exact and by its fast approximation.

Hendrycks and Gimpel, Gaussian Error Linear Units (2016): ``gelu(x) = x * P(X <= x)`` for a standard normal X.
"""

import math
import sys

import numpy as np

import kaio
from kaio import In, Out, f32

SQRT_HALF = math.sqrt(0.5)
SLOPE = 2 * math.sqrt(2 / math.pi)


@kaio.kernel
def gelu(x: In[f32], out: Out[f32]):
    """By the complementary error function, which keeps the digits of the left tail that ``1 + erf`` would lose.

    CHECK: .visible .entry gelu(
    CHECK: ld.global{{.*}}.f32
    CHECK: ex2.approx
    CHECK: st.global.f32
    """
    i = kaio.grid(1)
    if i < out.size:
        out[i] = 0.5 * x[i] * math.erfc(-SQRT_HALF * x[i])


@kaio.kernel
def fast_gelu(x: In[f32], out: Out[f32]):
    """``0.5 * x * (1 + tanh(u))`` is ``x / (1 + exp(-2u))``, in which exp may overflow: x / inf is the limit, 0.

    CHECK: .visible .entry fast_gelu(
    CHECK: ld.global{{.*}}.f32
    CHECK: ex2.approx
    CHECK: div.rn.f32
    CHECK: st.global.f32
    """
    i = kaio.grid(1)
    if i < out.size:
        value = x[i]
        out[i] = value / (1.0 + math.exp(-SLOPE * (value + 0.044715 * value * value * value)))


def main(device: kaio.Device | None = None, n: int = 100_003) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    x = np.random.default_rng(4).normal(0, 3, n).astype(np.float32)
    given, out = device.alloc_from(x), device.alloc_empty(n, f32)

    gelu.over(n).launch(given, out).wait()
    wide = x.astype(np.float64)
    exact = np.array([0.5 * v * math.erfc(-v * SQRT_HALF) for v in wide])
    np.testing.assert_allclose(out.to_host(), exact, rtol=2e-6, atol=1e-9)

    fast_gelu.over(n).launch(given, out).wait()
    approximation = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(out.to_host(), approximation, rtol=1e-5, atol=1e-6)
    print(f"gelu of {n} on {device.name}: equal to NumPy, exact to 2e-6, fast to 1e-5")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
