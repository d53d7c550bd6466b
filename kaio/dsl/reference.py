"""What there is to know of a record, as text: what `help` shows of it, and a section of the reference."""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from kaio.dsl.element_types import element_type
from kaio.dsl.intrinsic import STANDARD, Intrinsic, Namespace
from kaio.dsl.rule_error import RuleError
from kaio.dsl.values import BufferType, ObjectType, Type, Weak
from kaio.dtypes import DType, i32

__all__ = ["describe", "dtypes", "records", "reference", "types"]


def records() -> dict[str, Intrinsic | Namespace]:
    """Everything that a kernel may name, by how it is called there: `kaio.fma`, `math.sin`, `abs`."""
    kaio = sys.modules["kaio"]
    own = {f"kaio.{name}": getattr(kaio, name) for name in kaio.__all__}
    found = {name: value for name, value in own.items() if isinstance(value, Intrinsic | Namespace)}
    for python, record in STANDARD.items():
        module = getattr(python, "__module__", "")
        # One that stands for a function of kaio's is told there: `math.fma` came with Python 3.13.
        if module in ("builtins", "cmath", "math") and record not in own.values():
            found[python.__name__ if module == "builtins" else f"{module}.{python.__name__}"] = record
    return found


def types() -> list[DType]:
    """Every dtype."""
    kaio = sys.modules["kaio"]
    return [value for name in kaio.__all__ if isinstance(value := getattr(kaio, name), DType)]


def reference() -> str:
    """The sections of the reference: every record, by the module that it is in, and the dtypes."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, record in records().items():
        groups[_group(name, record)].append(_section(name, record))
    parts = [f"## {title}\n\n{about}\n\n" + "\n\n".join(groups[title, about]) for title, about in _in_order(groups)]
    return "\n\n".join([f"## Types\n\n{_types_table()}", *parts])


def describe(record: Intrinsic) -> str:
    """What `help(kaio.fma)` and `kaio.fma?` show."""
    facts = [f"{label}: {text}" for label, text in _facts(record)]
    example = ["Example (the statements of a kernel):\n" + _indented(record.example)] if record.example else []
    return "\n\n".join([record.doc, *(["\n".join(facts)] if facts else []), *example])


_BUILTINS = "Python's own functions."

# --- sections ---------------------------------------------------------------------------------------------------------


def _group(name: str, record: Intrinsic | Namespace) -> tuple[str, str]:
    """The title of a record's group, and what is said of the group."""
    module = name.rpartition(".")[0] or "Python"
    if module != "kaio":
        return (f"`{module}`", f"Functions of Python's `{module}`.") if module != "Python" else ("`Python`", _BUILTINS)
    module = record.__dict__.get("__module__") or "kaio.dsl.index"
    module = module.removesuffix(".records")  # which speaks for its package
    doc = " ".join((sys.modules[module].__doc__ or module).strip().split("\n\n")[0].split())
    title = doc.partition(":")[0].rstrip(".")
    return title, doc


def _in_order(groups: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Where a thread is, Python's own, and the rest by title."""
    return sorted(groups, key=lambda group: (not group[0].startswith("Where"), not group[0].startswith("`"), group))


def _numpy(dtype: DType) -> str:
    fields = dtype.numpy.names
    return f"`{dtype.numpy}`" if fields is None else f"structured: `{fields[0]}` to `{fields[-1]}`"


def _types_table() -> str:
    lines = ["| type | bits | NumPy | |", "| --- | --- | --- | --- |"]
    for dtype in types():
        doc = " ".join((dtype.__doc__ or "").split())
        lines.append(f"| `{dtype.__name__}` | {dtype.bits} | {_numpy(dtype)} | {doc} |")
    return "\n".join(lines)


def _section(name: str, record: Intrinsic | Namespace) -> str:
    if isinstance(record, Namespace):
        return f"### `{name}`\n\n{record.doc}"
    facts = "\n".join(f"- {label}: {text}" for label, text in _facts(record, "`"))
    example = f"```python\n{record.example.strip()}\n```" if record.example else ""
    parts = [f"### `{name}{_signature(record)}`", record.doc, facts, example]
    return "\n\n".join(part for part in parts if part)


def _signature(record: Intrinsic) -> str:
    """The signature without annotations, which say less than the text, and without the `/` of Python's own."""
    if record.signature is None:
        return "(...)"
    bare = [
        p.replace(annotation=p.empty, kind=p.POSITIONAL_OR_KEYWORD if p.kind is p.POSITIONAL_ONLY else p.kind)
        for p in record.signature.parameters.values()
    ]
    return str(record.signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _facts(record: Intrinsic, quote: str = "") -> Iterator[tuple[str, str]]:
    """What is to be said of a record beside its doc, each with a label."""
    taken = dtypes(record)
    if taken:
        yield "types", _kinds(taken, quote)
    if record.ptx:
        yield "PTX", f"{quote}{record.ptx}{quote}"
    if record.ptx or record.since:
        yield (
            "targets",
            f"the CPU, and {quote}{record.since}{quote} and later" if record.since else "the CPU and every GPU",
        )
    if not record.same_bits:
        yield "bits", "the last ones may differ between devices"


_KINDS: dict[str, Callable[[DType], bool]] = {
    "every type": lambda d: True,
    "integers": lambda d: d.kind in ("i", "u"),
    "floats": lambda d: d.kind == "f" and d.bits >= 16,
    "8-bit floats": lambda d: d.kind == "f" and d.bits < 16,
    "complex numbers": lambda d: d.kind == "c",
    "packed vectors": lambda d: d.kind == "v",
    "vectors of integers": lambda d: d.kind == "v" and d.__name__[0] in "iu",
    "vectors of floats": lambda d: d.kind == "v" and d.__name__[0] in "fb",
}


def _kinds(taken: list[DType], quote: str) -> str:
    """Types in words where they are all of a kind, else one by one."""
    words = []
    for word, is_of in _KINDS.items():
        of_kind = [d for d in types() if is_of(d)]
        if of_kind and all(d in taken for d in of_kind):
            words.append(word)
            taken = [d for d in taken if d not in of_kind]
    return ", ".join([*words, *(f"{quote}{d.name}{quote}" for d in taken)])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


# --- types ------------------------------------------------------------------------------------------------------------

_GIVEN_WHOLE = ("index", "shape", "lane", "delta", "lane_mask", "seed", "offset", "counter", "count", "width", "mask")


def dtypes(record: Intrinsic) -> list[DType]:
    """The element types that a record takes, where its parameters are of one; found by asking it for each."""
    if record.typing is None or record.signature is None:
        return []
    required = [p for p in record.signature.parameters.values() if p.default is p.empty]
    required += [p for p in required if p.kind is p.VAR_POSITIONAL]  # two of `min(*values)`
    if any(p.kind in (p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in required) or all(_is_whole(p.name) for p in required):
        return []
    return [dtype for dtype in types() if _takes(record, [_sample(p.name, dtype) for p in required])]


def _is_whole(name: str) -> bool:
    return name in _GIVEN_WHOLE or name == "name"


def _sample(name: str, dtype: DType) -> Type:
    """An argument of a type for a parameter of that name."""
    if name == "name":
        return ObjectType(name)
    if name in _GIVEN_WHOLE:
        return Weak("i", (1,))
    if name == "dtype":
        return ObjectType(dtype)
    if name in ("buffer", "array"):
        return BufferType(dtype, 1, "InOut", i32)
    return element_type(dtype)


def _takes(record: Intrinsic, arguments: list[Type]) -> bool:
    assert record.typing is not None
    try:
        record.typing(*arguments)
    except RuleError:
        return False
    except Exception:  # an argument of another kind was meant
        return False
    return True
