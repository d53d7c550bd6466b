"""Reading any picture that Pillow knows as u8 RGB, and writing one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaio.errors import KaioError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["PORTRAIT", "PictureError", "read_picture", "write_picture"]

# Rear Admiral Grace Hopper, who led the first compiler: an official portrait of the United States Navy by
# James S. Davis, in the public domain.
PORTRAIT = Path(__file__).with_name("grace_hopper.jpg")


class PictureError(KaioError):
    """A picture cannot be read or written."""


def read_picture(path: str | Path) -> npt.NDArray[np.uint8]:
    """The first frame of a picture as RGB, ``[height, width, 3]``, turned as its EXIF orientation says.

    16-bit, 32-bit and floating-point grey is scaled to 8 bits; what is transparent is laid on white. Raises
    `PictureError` where there is no such file or it is no picture.
    """
    pillow = _pillow()
    try:
        with pillow.open(path) as opened:
            upright = _upright(opened)
            return np.asarray(_to_rgb(upright), np.uint8)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as problem:
        raise PictureError(f"cannot read `{path}` as a picture: {_reason(problem)}") from problem


def write_picture(path: str | Path, picture: npt.NDArray[np.uint8]) -> None:
    """Write a grey ``[height, width]`` or RGB ``[height, width, 3]`` picture; a name without a suffix gets a PNG."""
    pillow = _pillow()
    try:
        pillow.fromarray(picture).save(path, format=None if Path(path).suffix else "PNG")
    except (OSError, ValueError) as problem:
        raise PictureError(f"cannot write `{path}`: {_reason(problem)}") from problem


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as problem:
        raise PictureError(
            "reading pictures needs Pillow",
            help="`pip install pillow`, or kaio with its extra: `pip install '.[demo]'` in a clone",
        ) from problem
    return Image


def _reason(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem)


def _upright(picture: Image) -> Image:
    from PIL import ImageOps

    return ImageOps.exif_transpose(picture)


def _to_rgb(picture: Image) -> Image:
    if picture.mode == "F" or picture.mode.startswith("I"):
        return _pillow().fromarray(_to_8_bits(np.asarray(picture))).convert("RGB")  # type: ignore[no-any-return]
    if picture.has_transparency_data:
        seen = picture.convert("RGBA")
        white = _pillow().new("RGBA", seen.size, "white")
        white.alpha_composite(seen)
        picture = white
    return picture.convert("RGB")


def _to_8_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Grey of more than 8 bits: whole numbers by their usual full scale, others from their least to their greatest."""
    if values.dtype.kind in "iu":
        full = 255 if values.max() <= 255 and values.dtype.itemsize > 2 else 65535
        return np.asarray(np.clip(values, 0, full).astype(np.uint32) * 255 // full, np.uint8)
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros(values.shape, np.uint8)
    low, high = float(values[finite].min()), float(values[finite].max())
    scaled = (np.where(finite, values, low).astype(np.float64) - low) / (high - low or 1.0)
    return np.asarray(scaled * 255, np.uint8)
