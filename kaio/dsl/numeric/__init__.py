"""Functions of numbers: those of Python's `math`, and those that CUDA has beside them, one file for each kind.

`operands` holds what they share. Floats that are narrower than f32 are computed in f32 and rounded once more.
"""

from kaio.dsl.numeric import (
    bits,
    classes,
    directed,
    dots,
    elementary,
    fast,
    integers,
    norms,
    parts,
    rounding,
    selection,
    special,
)

__all__ = [
    "bits", "classes", "directed", "dots", "elementary", "fast", "integers", "norms", "parts", "rounding", "selection",
    "special",
]  # fmt: skip
