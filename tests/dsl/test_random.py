"""Random numbers in kernels: the published vectors, a reference in NumPy, and what a distribution must have."""

from __future__ import annotations

import numpy as np
import pytest

import kaio
from kaio import Const, In, Out, f32, f64, i64, u32, u64
from tests.refusals import first_mistake

COUNT = 20_000


def philox(seed: int, *counter) -> list[np.ndarray]:
    """Philox-4x32-10 in NumPy."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1, mask = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        low, high = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (high >> 32) ^ c1 ^ np.uint64(k0), high & mask, (low >> 32) ^ c3 ^ np.uint64(k1), low & mask
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [c.astype(np.uint32) for c in (c0, c1, c2, c3)]


def words(seed: int, count: int = COUNT) -> list[np.ndarray]:
    return philox(seed, np.arange(count), np.zeros(count), np.zeros(count), np.zeros(count))


# ---------------------------------------------------------------------- the generator
@kaio.kernel
def block(out: Out[u32], counter: In[u32], seed: u64):
    w0, w1, w2, w3 = kaio.philox(seed, counter[0], counter[1], counter[2], c3=counter[3])
    out[0] = w0
    out[1] = w1
    out[2] = w2
    out[3] = w3


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # kat_vectors of Random123 1.14: counter, key, output
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_published_vectors(device: kaio.Device, counter: str, key: str, expected: str) -> None:
    low, high = (int(word, 16) for word in key.split())
    given = device.alloc_from(np.array([int(word, 16) for word in counter.split()], np.uint32))
    out = device.alloc_zeros(4, u32)
    block.over(1).block(1).launch(out, given, low | high << 32).wait()
    assert [f"{word:08x}" for word in out.to_host()] == expected.split()


@kaio.kernel
def integers(out: Out[u32], seed: u64, first: i64):
    i = kaio.grid(1)
    if i < out.size:
        out[i] = kaio.random_u32(seed, first + i)


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_random_u32_is_the_first_word_at_the_offset(device: kaio.Device, seed: int) -> None:
    out = device.alloc_zeros(COUNT, u32)
    integers.over(COUNT).launch(out, seed, 0).wait()
    np.testing.assert_array_equal(out.to_host(), words(seed)[0])


def test_an_offset_has_64_bits(device: kaio.Device) -> None:
    out = device.alloc_zeros(4, u32)
    integers.over(4).block(4).launch(out, 5, 2**32 - 2).wait()
    expected = philox(5, [2**32 - 2, 2**32 - 1, 0, 1], [0, 0, 1, 1], [0] * 4, [0] * 4)[0]
    np.testing.assert_array_equal(out.to_host(), expected)


def test_the_counter_may_be_of_any_integer_type() -> None:
    @kaio.kernel
    def narrow(out: Out[u32]):
        out[0] = kaio.random_u32(3, kaio.u8(200))
        out[1] = kaio.random_u32(kaio.i32(3), 200)

    out = kaio.Device("cpu").alloc_zeros(2, u32)
    narrow.over(1).block(1).launch(out).wait()
    assert out.to_host().tolist() == [words(3, 201)[0][200]] * 2


def test_words_of_the_counter_that_are_left_out_are_0() -> None:
    @kaio.kernel
    def last(out: Out[u32]):
        out[0] = kaio.philox(3, 1, c3=4)[0]

    out = kaio.Device("cpu").alloc_zeros(1, u32)
    last.over(1).block(1).launch(out).wait()
    assert out.to_host()[0] == philox(3, 1, 0, 0, 4)[0]


# ---------------------------------------------------------------------- distributions
@kaio.kernel
def uniform(out: Out[f32], wide: Out[f64], seed: u64):
    i = kaio.grid(1)
    if i < out.size:
        out[i] = kaio.random_uniform(seed, i)
        wide[i] = kaio.random_uniform(seed, i, dtype=f64)


def test_uniform_numbers_are_the_upper_bits_of_the_words(device: kaio.Device) -> None:
    out, wide = device.alloc_zeros(COUNT, f32), device.alloc_zeros(COUNT, f64)
    uniform.over(COUNT).launch(out, wide, 9).wait()
    w0, w1, *_ = words(9)
    np.testing.assert_array_equal(out.to_host(), (w0 >> 8) * np.float32(2**-24))
    both = (w0.astype(np.uint64) << np.uint64(32)) | w1
    np.testing.assert_array_equal(wide.to_host(), (both >> np.uint64(11)) * 2.0**-53)


@kaio.kernel
def several(out: Out[f32, kaio.D2], seed: u64, normal: Const[bool]):
    i = kaio.grid(1)
    if i < out.shape[0]:
        a, b, c, d = kaio.random_normal4(seed, i) if normal else kaio.random_uniform4(seed, i)
        out[i, 0] = a
        out[i, 1] = b
        out[i, 2] = c
        out[i, 3] = d


def four(device: kaio.Device, normal: bool) -> np.ndarray:
    out = device.alloc_zeros((COUNT, 4), f32)
    several.over(COUNT).launch(out, 9, normal).wait()
    return out.to_host()


def test_four_at_once_are_those_of_the_four_words(device: kaio.Device) -> None:
    expected = np.stack(words(9), 1) >> 8
    np.testing.assert_array_equal(four(device, normal=False), expected * np.float32(2**-24))


def normal_reference(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    radius, angle = np.sqrt(-2 * np.log(1 - u.astype(float))), 2 * np.pi * v.astype(float)
    return radius * np.cos(angle), radius * np.sin(angle)


def test_four_normal_numbers_are_box_and_mullers(device: kaio.Device) -> None:
    u = four(device, normal=False)
    expected = np.stack([*normal_reference(u[:, 0], u[:, 1]), *normal_reference(u[:, 2], u[:, 3])], 1)
    np.testing.assert_allclose(four(device, normal=True), expected, rtol=0, atol=5e-6)


@kaio.kernel
def normal(out: Out[f32], wide: Out[f64], seed: u64):
    i = kaio.grid(1)
    if i < out.size:
        out[i] = kaio.random_normal(seed, i)
        wide[i] = kaio.random_normal(seed, i, f64)


def test_normal_numbers_are_box_and_mullers(device: kaio.Device) -> None:
    out, wide = device.alloc_zeros(COUNT, f32), device.alloc_zeros(COUNT, f64)
    normal.over(COUNT).launch(out, wide, 9).wait()
    np.testing.assert_array_equal(out.to_host(), four(device, normal=True)[:, 0])
    u, v = ((a.astype(np.uint64) << np.uint64(32) | b) >> np.uint64(11) for a, b in (words(9)[:2], words(9)[2:]))
    np.testing.assert_allclose(wide.to_host(), normal_reference(u * 2.0**-53, v * 2.0**-53)[0], rtol=0, atol=1e-13)


def test_uniform_numbers_fill_the_unit_evenly_and_do_not_depend_on_their_neighbours() -> None:
    u = four(kaio.Device("cpu"), normal=False).astype(float)
    assert 0 <= u.min() < u.max() < 1
    for column in u.T:
        counts = np.bincount((column * 100).astype(int), minlength=100)
        assert ((counts - COUNT / 100) ** 2 / (COUNT / 100)).sum() < 160  # chi square of 99 degrees: p = 1e-4
    correlations = np.corrcoef(np.vstack([u.T[:, 1:], u.T[:, :-1]]))  # of the four, and of one offset and the next
    assert abs(correlations - np.eye(8)).max() < 0.03


def test_normal_numbers_have_the_moments_of_the_distribution() -> None:
    z = four(kaio.Device("cpu"), normal=True).astype(float)
    assert abs(z.mean()) < 0.015
    assert abs(z.var() - 1) < 0.02
    assert abs((z**3).mean()) < 0.04
    assert abs((z**4).mean() - 3) < 0.12
    assert abs((abs(z) > 1.96).mean() - 0.05) < 0.004
    assert abs(np.corrcoef(z.T) - np.eye(4)).max() < 0.03


# ---------------------------------------------------------------------- mistakes
def message(kernel: kaio.Kernel) -> str:
    return first_mistake(kernel).partition("\n")[0]


def test_a_seed_and_an_offset_are_integers() -> None:
    @kaio.kernel
    def fraction(out: Out[f32]):
        out[0] = kaio.random_uniform(1, 0.5)

    @kaio.kernel
    def seed(out: Out[f32], x: In[f32]):
        out[0] = kaio.random_normal(x[0], 1)

    assert message(fraction) == "the offset of `random_uniform` is an integer, not float literal 0.5"
    assert message(seed) == "the seed of `random_normal` is an integer, not f32"


def test_a_literal_of_more_than_64_bits_is_refused() -> None:
    @kaio.kernel
    def seed(out: Out[u32]):
        out[0] = kaio.random_u32(-(2**63), 2**64 - 1) ^ kaio.philox(2**64, 0)[0]

    assert message(seed) == "the seed of `philox` has 64 bits, and int literal 18446744073709551616 has more"


def test_another_dtype_is_refused() -> None:
    @kaio.kernel
    def whole(out: Out[u32]):
        out[0] = kaio.random_uniform(1, 2, dtype=u32)

    assert message(whole) == "`random_uniform` gives `kaio.f32` or `kaio.f64`, not `u32`"
