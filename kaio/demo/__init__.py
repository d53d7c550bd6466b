"""The main job as a user would write it: an image pipeline in kaio kernels, checked against NumPy.

`kernels.py` holds the kernels, `pipeline.py` the launches, `reference.py` the same in NumPy, `picture.py` the files.
"""

from kaio.demo.picture import PORTRAIT, PictureError, read_picture, write_picture
from kaio.demo.pipeline import Result, StageReport, process

__all__ = ["PORTRAIT", "PictureError", "Result", "StageReport", "process", "read_picture", "write_picture"]
