"""Attention over 8-bit keys and values: any number of tokens, any head size, one block a query.

``out = softmax(q @ k.T / sqrt(size)) @ v`` without the matrix of scores: the softmax is corrected as keys go by
(Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). Each key and value token has one scale.
"""

import math
import sys

import numpy as np

import kaio
from kaio import D2, Const, In, InOut, f32, i8

THREADS = 128


@kaio.kernel
def quantised_attention(
    q: In[f32, D2],
    k: In[i8, D2],
    k_scale: In[f32],
    v: In[i8, D2],
    v_scale: In[f32],
    out: InOut[f32, D2],
    causal: Const[bool] = False,
):
    """A key a thread for the scores of a tile, then a column a thread for the sum of its values.

    CHECK: .visible .entry quantised_attention(
    CHECK: ex2.approx
    CHECK: st.shared.f32
    CHECK: bar.sync
    CHECK: div.rn.f32
    CHECK: st.global.f32
    """
    weights = kaio.shared_mem(THREADS, f32)
    query, thread = kaio.block_idx.x, kaio.thread_idx.x
    size = q.shape[1]
    keys = query + 1 if causal else k.shape[0]

    for column in range(thread, size, THREADS):
        out[query, column] = 0.0
    highest, total = f32(-math.inf), f32(0)
    for start in range(0, keys, THREADS):
        key = start + thread
        score = f32(-math.inf)
        if key < keys:
            score = 0.0
            for column in range(size):
                score += q[query, column] * k[key, column]
            score *= k_scale[key] / math.sqrt(f32(size))

        before, highest = highest, max(highest, kaio.block_reduce_max(score))
        correction = math.exp(before - highest)
        weight = math.exp(score - highest)
        total = total * correction + kaio.block_reduce_sum(weight)
        weights[thread] = weight * v_scale[key] if key < keys else 0.0
        kaio.bar_sync()

        for column in range(thread, size, THREADS):
            value = out[query, column] * correction
            for other in range(min(THREADS, keys - start)):
                value += weights[other] * v[start + other, column]
            out[query, column] = value
        kaio.bar_sync()  # the weights of this tile are read before those of the next are written

    for column in range(thread, size, THREADS):
        out[query, column] /= total


def quantised(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of floats as 8-bit integers and one scale each."""
    scale = np.abs(values).max(axis=1) / 127
    return np.rint(values / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def main(
    device: kaio.Device | None = None, queries: int = 20, keys: int = 300, size: int = 64, causal: bool = False
) -> None:
    """Run on `device` (default: the best there is) and compare with NumPy."""
    device = device or kaio.Device()
    rng = np.random.default_rng(10)
    q = rng.normal(0, 1, (queries, size)).astype(np.float32)
    k, k_scale = quantised(rng.normal(0, 1, (keys, size)))
    v, v_scale = quantised(rng.normal(0, 1, (keys, size)))

    out = device.alloc_zeros((queries, size), f32)
    given = [device.alloc_from(array) for array in (q, k, k_scale, v, v_scale)]
    quantised_attention.grid(queries).block(THREADS).launch(*given, out, causal=causal).wait()

    scores = q.astype(np.float64) @ (k * k_scale[:, None].astype(np.float64)).T / math.sqrt(size)
    if causal:
        scores[np.arange(keys) > np.arange(queries)[:, None]] = -np.inf
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True) @ (v * v_scale[:, None].astype(np.float64))
    np.testing.assert_allclose(out.to_host(), expected, rtol=1e-4, atol=1e-5)
    print(f"quantised_attention of {queries} x {keys} x {size} on {device.name}: equal to NumPy to 1e-4")


if __name__ == "__main__":
    main(kaio.Device(sys.argv[1]) if sys.argv[1:] else None)
