"""The stages of the pipeline in NumPy: integers exactly as the kernels have them, real numbers in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["blur", "edges", "equaliser", "gaussian", "grey", "histogram"]

Picture = npt.NDArray[Any]


def gaussian(radius: int) -> Picture:
    """Weights of a Gaussian of 2 * radius + 1 taps whose last are at two and a half deviations; they add up to 1."""
    distance = np.arange(-radius, radius + 1) / max(radius / 2.5, 1e-9)
    weights = np.exp(-0.5 * distance**2)
    return np.asarray(weights / weights.sum())


def grey(rgb: Picture) -> Picture:
    """Luma of BT.601 in 16-bit fixed point."""
    luma = rgb.astype(np.int64) @ np.array([19595, 38470, 7471], np.int64)
    return np.asarray((luma + 32768) >> 16, np.uint8)


def blur(picture: Picture, weights: Picture) -> Picture:
    """Along rows, then along columns; the picture goes on beyond its edges as its outermost pixels."""
    return _blur_rows(_blur_rows(picture.astype(np.float64), weights).T, weights).T


def _blur_rows(picture: Picture, weights: Picture) -> Picture:
    radius = len(weights) // 2
    padded = np.pad(picture, ((0, 0), (radius, radius)), mode="edge")
    width = picture.shape[1]
    terms = (weight * padded[:, k : k + width] for k, weight in enumerate(weights))
    return np.asarray(sum(terms))


def edges(picture: Picture) -> Picture:
    """Length of Sobel's gradient."""
    padded = np.pad(picture.astype(np.float64), 1, mode="edge")
    rows, columns = padded[:-2] + 2 * padded[1:-1] + padded[2:], padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    return np.hypot(rows[:, 2:] - rows[:, :-2], columns[2:] - columns[:-2])


def histogram(picture: Picture) -> Picture:
    """How many pixels have each of the 256 levels."""
    return np.bincount(picture.ravel(), minlength=256)


def equaliser(counts: Picture) -> Picture:
    """The table that spreads a histogram evenly over all levels."""
    running = np.cumsum(counts)
    darkest = running[running > 0].min()
    spread = running[-1] - darkest
    if spread == 0:
        return np.arange(256, dtype=np.uint8)
    return np.asarray((np.maximum(running - darkest, 0) * 255 + spread // 2) // spread, np.uint8)
