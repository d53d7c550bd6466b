"""Names as PTX takes them."""

from __future__ import annotations

import itertools
from collections.abc import Container

from kaio.print_abi import VARIABLE

__all__ = ["distinct", "entry_name", "spelled", "variable_name"]

# opcodes and the predefined constant are reserved words for the assembler of PTX, and a name has more than `_`
_RESERVED_WORDS = (
    "abs add addc and atom bar bfe bfi bra brev brkpt brx call clz cnot copysign cos cp cvt cvta discard "
    "div ex2 exit fma fns ld ldu lg2 lop3 mad mad24 madc match max mbarrier membar min mov mul mul24 neg "
    "not or pmevent popc prefetch prmt rcp red redux rem ret rsqrt sad selp set setp shf shfl shl shr sin "
    "slct sqrt st sub subc suld sured sust szext tanh testp tex tld4 trap txq vote xor WARP_SZ _"
)
_RESERVED = frozenset(_RESERVED_WORDS.split())


def spelled(name: str) -> str:
    """A name of Python's as PTX takes it: letters beyond ASCII by their number.

    >>> spelled("gain"), spelled("größe")
    ('gain', 'gr_f6__df_e')
    """
    return "".join(letter if letter.isascii() else f"_{ord(letter):x}_" for letter in name)


def entry_name(name: str) -> str:
    """The name of a kernel in PTX: not `_` alone, no constant, no function of libdevice and not what `print` needs.

    >>> entry_name("saxpy"), entry_name("_"), entry_name("__nv_sinf")
    ('saxpy', '__0', '__nv_sinf_0')
    """
    is_taken = name in ("_", "WARP_SZ", VARIABLE) or name.startswith("__nv_")
    return spelled(name) + ("_0" if is_taken else "")


def variable_name(name: str, taken: Container[str]) -> str:
    """A name for a variable of a module: letters, digits and `_`, with a number where it is taken.

    >>> variable_name("blur_tile", {"blur_tile"}), variable_name("blur_WEIGHTS[0]", ())
    ('blur_tile_1', 'blur_WEIGHTS_0_')
    """
    plain = "".join(letter if letter.isalnum() else "_" for letter in spelled(name))
    numbered = (f"{plain}_{number}" for number in itertools.count(1))
    return next(unique for unique in itertools.chain([plain], numbered) if unique not in taken)


def distinct(parameters: list[str], taken: set[str]) -> list[str]:
    """The parameters' names in PTX, none of them a reserved word or the name of something else.

    Inside the entry a parameter would hide a shared array of its name, without a word from the assembler.
    """
    names: list[str] = []
    for name in map(spelled, parameters):
        while name in _RESERVED or name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names
