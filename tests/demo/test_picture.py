"""Any picture is read as u8 RGB, and what is none is refused cleanly."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kaio.demo import PORTRAIT, PictureError, read_picture, write_picture


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", PORTRAIT.read_bytes()[:5000]])
def test_what_is_no_picture_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    with pytest.raises(PictureError) as caught:
        read_picture(path)
    assert str(caught.value).startswith(f"cannot read `{path}` as a picture: ")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PictureError) as caught:
        read_picture(tmp_path)
    assert str(caught.value) == f"cannot read `{tmp_path}` as a picture: Is a directory"


def saved(path: Path, mode: str) -> str:
    """Write a picture of a mode, if the format has it; the mode that is read back."""
    Image.new(mode, (5, 3)).save(path)
    with Image.open(path) as written:
        return written.mode


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_any_mode_of_png_is_read(mode: str, tmp_path: Path) -> None:
    assert saved(tmp_path / "a.png", mode) == mode
    assert read_picture(tmp_path / "a.png").shape == (3, 5, 3)


@pytest.mark.parametrize("mode", ["1", "LA", "P", "PA", "RGBA", "CMYK", "LAB", "I", "F", "I;16", "I;16B"])
def test_any_mode_of_tiff_is_read(mode: str, tmp_path: Path) -> None:
    assert saved(tmp_path / "a.tiff", mode) == mode
    assert read_picture(tmp_path / "a.tiff").shape == (3, 5, 3)


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (1, 1), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").tolist() == [[[255, 255, 255]]]


def test_sixteen_bits_keep_their_high_half(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 257, 65535]], np.uint16)).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png")[0, :, 0].tolist() == [0, 1, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0, 0.5, 1.0], [0, 127, 255]), ([-1.0, np.nan, np.inf], [0, 0, 0]), ([np.nan] * 3, [0, 0, 0])],
)
def test_real_numbers_are_scaled_from_least_to_greatest(
    values: list[float], expected: list[int], tmp_path: Path
) -> None:
    Image.fromarray(np.array([values], np.float32)).save(tmp_path / "a.tiff")
    assert read_picture(tmp_path / "a.tiff")[0, :, 0].tolist() == expected


def test_orientation_is_followed(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the picture is on its right
    Image.new("RGB", (30, 10)).save(tmp_path / "a.jpg", exif=exif)
    assert read_picture(tmp_path / "a.jpg").shape == (30, 10, 3)


def test_the_first_frame_of_an_animation_is_read(tmp_path: Path) -> None:
    frames = [Image.new("L", (4, 4), level) for level in (10, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert np.unique(read_picture(tmp_path / "a.gif")).tolist() == [10]


def test_a_name_without_suffix_is_written_as_png(tmp_path: Path) -> None:
    write_picture(tmp_path / "picture", np.zeros((2, 2), np.uint8))
    with Image.open(tmp_path / "picture") as written:
        assert written.format == "PNG"


def test_without_pillow_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(PictureError) as caught:
        read_picture(PORTRAIT)
    assert str(caught.value) == (
        "reading pictures needs Pillow\n"
        "  help: `pip install pillow`, or kaio with its extra: `pip install '.[demo]'` in a clone"
    )
