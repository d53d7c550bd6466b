"""A `Trace` as a table beside the source: as text, and for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kaio.runtime.trace import Event, Step, Trace

__all__ = ["html_of", "text_of"]

_MOST_ROWS = 200
_WIDEST = 64  # columns of source; a longer line is cut
_INDENT = "    "


class _Row(NamedTuple):
    line: str
    source: str
    events: tuple[str, ...]
    is_fault: bool = False


def text_of(trace: Trace) -> str:
    """The table as text."""
    rows = list(_rows(trace))
    number = max((len(row.line) for row in rows), default=1)
    width = max((len(row.source) for row in rows), default=0)
    shown = []
    for row in rows:
        for k, events in enumerate(_wrapped(row.events)):
            line, source = (row.line, row.source) if k == 0 else ("", "")
            shown.append(f"{line:>{number}} | {source:<{width}} | {events}".rstrip(" |"))
    return "\n".join([_title(trace), *shown, *_remarks(trace)])


def _wrapped(events: tuple[str, ...]) -> list[str]:
    """The events of a row, as many on a line as are read well."""
    lines = [""]
    for event in events:
        joined = f"{lines[-1]}, {event}" if lines[-1] else event
        if lines[-1] and len(joined) > _WIDEST:
            lines[-1] += ","
            lines.append(event)
        else:
            lines[-1] = joined
    return lines


def html_of(trace: Trace) -> str:
    """The table as HTML."""
    cell = 'style="text-align:left;font-family:monospace;white-space:pre-wrap;padding:0 .7em"'
    head = "".join(f'<th style="text-align:left;padding:0 .7em">{name}</th>' for name in ("line", "source", ""))
    body = "".join(
        f"<tr{_RED if row.is_fault else ''}>"
        + "".join(f"<td {cell}>{html.escape(text)}</td>" for text in (row.line, row.source, ", ".join(row.events)))
        + "</tr>"
        for row in _rows(trace)
    )
    remarks = "".join(f"<p>{html.escape(remark)}</p>" for remark in _remarks(trace))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><p>{html.escape(_title(trace))}</p>{table}{remarks}</div>"


_RED = ' style="color:#c00;font-weight:bold"'


def _title(trace: Trace) -> str:
    count = f"{len(trace)} step{'s' * (len(trace) != 1)}"
    return f"kernel `{trace.kernel}`, thread {trace.thread} of block {trace.block}: {count}"


def _remarks(trace: Trace) -> Iterator[str]:
    if trace.is_cut:
        yield f"cut after {len(trace)} steps: `limit=` says how many are kept"
    if trace.fault is None and not trace.steps:
        yield "the thread was not run"


def _rows(trace: Trace) -> Iterator[_Row]:
    """The rows, of a long trace the first and the last ones."""
    count = len(trace.steps)
    half = count if count <= _MOST_ROWS else _MOST_ROWS // 2
    known: set[tuple[str, str, str]] = set()
    for k, step in enumerate(trace.steps):
        if k == half:
            yield _Row("", f"… {count - 2 * half} more steps: iterate over the trace …", ())
        if k < half or k >= count - half:
            yield _row(step, tuple(_text(step, event, known) for event in step.events))


def _row(step: Step, events: tuple[str, ...]) -> _Row:
    source = _INDENT * step.depth + step.text.replace("\t", _INDENT)
    shown = source if len(source) <= _WIDEST else source[: _WIDEST - 1] + "…"
    return _Row(str(step.line), shown, events, step.is_fault)


def _text(step: Step, event: Event, known: set[tuple[str, str, str]]) -> str:
    """What happened; a variable has its type where it is first shown with it."""
    type_, name = getattr(event, "type", None), getattr(event, "name", "")
    if type_ is None or (key := (step.function, name, type_)) in known:
        return str(event)
    known.add(key)
    return str(event).replace(name, f"{name}: {type_}", 1)
