"""`breakpoint()` in a kernel: a prompt like that of `pdb`, at which one thread of a launch stands still."""

from __future__ import annotations

import os
import pdb
import sys
from bdb import BdbQuit
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, ClassVar

from kaio import trace_abi as abi
from kaio.errors import KaioError
from kaio.runtime.standing import call_inside, frames_of
from kaio.runtime.value_text import value_text
from kaio.runtime.watch import Moment, Watch

__all__ = ["Stops", "stops_for"]

Dim3 = tuple[int, int, int]
_OWN = ("", "pdb.set_trace")  # of `PYTHONBREAKPOINT`: what opens the prompt


def stops_for(kernel: str, grid: Dim3, block: Dim3) -> Watch | None:
    """Who looks on at a launch of a kernel with breakpoints; None where they do nothing.

    As in Python, `sys.breakpointhook` decides, and where nobody has set that, `PYTHONBREAKPOINT`.
    """
    if sys.breakpointhook is sys.__breakpointhook__:
        named = os.environ.get("PYTHONBREAKPOINT", "")
        if named == "0":
            return None
        if named in _OWN:
            is_own = pdb.set_trace.__module__ == "pdb"  # pytest puts one there that stops capturing
            return Stops(kernel, grid, block, None if is_own else pdb.set_trace).watch
    return Stops(kernel, grid, block, sys.breakpointhook).watch


class Stops:
    """Where threads of one launch stop: at `breakpoint()`, at lines that the prompt was told, and as it steps.

    The first thread that comes to a breakpoint is the one that stops from then on, until the prompt says another. A
    `hook` is called there in place of the prompt.
    """

    def __init__(self, kernel: str, grid: Dim3, block: Dim3, hook: Callable[[], Any] | None = None) -> None:
        self.kernel, self.grid, self.block, self.hook = kernel, grid, block, hook
        self.watch = Watch(self._look, level=abi.BREAKS)
        self.lines: dict[int, tuple[str, str]] = {}  # by number of the frame's file and line: see `stop_at`
        self._prompt: Prompt | None = None
        self._at: dict[int, tuple[int, set[int]]] = {}  # by frame: the line that it is at, and the notes seen there
        self._deepest = -1  # stop at the next line that is no deeper than this
        self.wanted: tuple[int, int] | None = None  # thread and block, as numbers; None: the first that comes

    def place(self, thread: int, block: int) -> str:
        """A thread in words."""
        return f"thread {_position(thread, self.block)} of block {_position(block, self.grid)}"

    def _look(self, moment: Moment) -> bool:
        if not self._is_stop(moment):
            return False
        if self.wanted is None:
            self.wanted = moment.thread, moment.block
        try:
            command = self._ask(moment)
        except BdbQuit:
            command = "quit"
        except BaseException as problem:  # a hook's Ctrl-C and `sys.exit()`, too: this may be no thread that they end
            raise KaioError(
                f"`breakpoint()` in kernel `{self.kernel}` failed: {problem!r}",
                help="`PYTHONBREAKPOINT=0` makes it do nothing",
            ) from problem
        depth = moment.frame.depth
        self._deepest = {"step": 1 << 30, "next": depth, "return": depth - 1}.get(command, -1)
        if self._deepest >= 0:
            self.watch.follow(moment.thread, moment.block, abi.ALL)
        else:
            self.watch.follow(*self.wanted, abi.ALL if self.lines else abi.BREAKS)
        return command == "quit"

    def _is_stop(self, moment: Moment) -> bool:
        note = moment.note
        if note.kind == "break":
            self._begins_line(note)
            return True
        if note.kind == "enter":
            self._at.pop(note.frame, None)
        if note.kind == "leave" and moment.frame.depth == 0 and self.wanted is not None:
            self._deepest = -1
            self.watch.follow(*self.wanted, abi.ALL if self.lines else abi.BREAKS)
        if note.kind != "line" or not self._begins_line(note):
            return False
        return moment.frame.depth <= self._deepest or self._holds(moment)

    def _begins_line(self, note: abi.Note) -> bool:
        """Whether a function comes to another line, or to the same one again; a line may have several notes."""
        line, seen = self._at.get(note.frame, (0, set()))
        if line == note.line and id(note) not in seen:
            seen.add(id(note))
            return False
        self._at[note.frame] = note.line, {id(note)}
        return True

    def _holds(self, moment: Moment) -> bool:
        """Whether the prompt was told to stop at this line, under a condition that holds."""
        file, condition = self.lines.get(moment.note.line, ("", ""))
        if file != moment.frame.source.filename:
            return False
        if not condition:
            return True

        def holds(frames: list[FrameType]) -> bool:
            try:
                return bool(eval(condition, frames[-1].f_globals, frames[-1].f_locals))
            except Exception:
                return True  # as in `pdb`: who wrote it sees what is wrong

        return bool(frames_of(moment, holds))

    def _ask(self, moment: Moment) -> str:
        if self.hook is not None:
            call_inside(moment, self.hook)
            return "continue"

        if self._prompt is None:
            self._prompt = Prompt(self)
        return str(frames_of(moment, partial(self._prompt.ask, moment)))


class Prompt(pdb.Pdb):
    """The commands of `pdb`, those that let code go on being about a thread of a kernel."""

    _open: ClassVar[list[Prompt]] = []  # those at which somebody may type now

    def __init__(self, stops: Stops) -> None:
        super().__init__(nosigint=True)
        self.prompt = "(kaio) "
        self._stops, self._last = stops, ""
        self._command = ""
        self._moment: Moment | None = None
        self._frames: list[FrameType] = []
        self._displayed: dict[str, dict[str, Any]] = {}  # by function: its frames are made anew at each stop
        self._was_told = False

    def ask(self, moment: Moment, frames: list[FrameType]) -> str:
        """Let the user look at the thread; gives how it is to go on: continue, next, step, return, quit."""
        self._moment, self._command, self._frames = moment, "continue", frames
        self.reset()
        self.displaying = {frame: self._displayed.setdefault(frame.f_code.co_name, {}) for frame in frames}
        here = self._stops.place(moment.thread, moment.block)
        if here != self._last:
            self.message(f"{here} of kernel `{self._stops.kernel}`")
            self._last = here
        self._was_told = False
        Prompt._open.append(self)
        try:
            self.interaction(frames[-1], None)
        finally:
            Prompt._open.remove(self)
        self._moment, self._frames, self.displaying = None, [], {}
        return self._command

    @classmethod
    def takes_interrupt(cls) -> bool:
        """Ctrl-C in the thread that launches, while another reads what is typed: whether it is meant for the prompt.

        As in `pdb` it leaves the line that is being typed. A second one, with no command between, leaves the launch.
        """
        told = [prompt for prompt in cls._open if not prompt._was_told]
        for prompt in told:
            prompt._was_told = True
            prompt.message("\n--KeyboardInterrupt--")
            prompt.stdout.write(prompt.prompt)
            prompt.stdout.flush()
        return bool(told)

    def onecmd(self, line: str) -> bool:
        """Do what was typed."""
        self._was_told = False
        return super().onecmd(line)

    def get_stack(self, f: FrameType | None, t: Any) -> tuple[list[tuple[FrameType, int]], int]:
        """The functions that the thread is in, and which of them is the innermost."""
        return [(frame, frame.f_lineno) for frame in self._frames], len(self._frames) - 1

    def _go(self, command: str) -> bool:
        self._command = command
        return True

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue)): go on to the next breakpoint of this thread (see `t`), or to the end."""
        return self._go("continue")

    def do_next(self, arg: str) -> bool:
        """n(ext): go on to the next line of this function, or of the one that called it."""
        return self._go("next")

    def do_step(self, arg: str) -> bool:
        """s(tep): go on to the next line, of a function that is called here too."""
        return self._go("step")

    def do_return(self, arg: str) -> bool:
        """r(eturn): go on until this function has returned."""
        return self._go("return")

    def do_quit(self, arg: str) -> bool:
        """q(uit): stop the launch, which fails with a KernelFault."""
        return self._go("quit")

    def do_EOF(self, arg: str) -> bool:
        """EOF: quit."""
        self.message("")
        return self._go("quit")

    def do_thread(self, arg: str) -> None:
        """t(hread) [x[,y[,z]] [x[,y[,z]]] | *]: which thread, of which block, stops from the next `c` on; * is any."""
        stops = self._stops
        if arg.strip() == "*":
            stops.wanted = abi.ANYONE, abi.ANYONE
        elif arg.strip():
            try:
                thread, block = ([*map(_read_position, arg.split()), (0, 0, 0)])[:2]
                stops.wanted = _number(thread, stops.block), _number(block, stops.grid)
            except ValueError:
                self.error(f"`{arg}` is no thread of blocks of {stops.block}, in a grid of {stops.grid}")
                return
        thread_number, block_number = stops.wanted or (abi.ANYONE, abi.ANYONE)
        anyone = thread_number == abi.ANYONE
        self.message("any thread stops" if anyone else f"{stops.place(thread_number, block_number)} stops")

    def do_args(self, arg: str) -> None:
        """a(rgs): the variables of this function that are set, with their types."""
        assert self._moment is not None
        frame = self._moment.calls[self.curindex][0]
        for seen in self._moment.variables(frame):
            self.message(f"{seen.name}: {seen.type} = {value_text(seen.value)}")

    def do_break(self, arg: str, temporary: object = False) -> None:
        """b(reak) [line [, condition]]: stop at a line of this file too; without one, list them."""
        lines, (line, _, condition) = self._stops.lines, arg.partition(",")
        frame: Any = self.curframe
        if not arg.strip():
            for number, (file, when) in sorted(lines.items()):
                self.message(f"{file}:{number}" + (f", if {when}" if when else ""))
            return
        file = frame.f_code.co_filename
        if not line.strip().isdigit():
            self.error(f"`{line}` is no line: for example `b 12`, or `b 12, acc > 3`")
        elif not self._has_code(file, int(line)):
            self.error(f"there is no statement of the kernel at {file}:{int(line)}")
        else:
            lines[int(line)] = file, condition.strip()
            self.message(f"stops at {file}:{int(line)}")

    def _has_code(self, file: str, line: int) -> bool:
        assert self._moment is not None
        watched = self._moment.watched
        notes = (note for note in watched.notes if note.kind == "line" and note.line == line)
        return any(watched.frames[note.frame].source.filename == file for note in notes)

    def do_clear(self, arg: str) -> None:
        """cl(ear) [line]: stop there no more; without one, at no line but breakpoints."""
        if not arg.strip():
            self._stops.lines.clear()
        elif arg.strip().isdigit() and int(arg) in self._stops.lines:
            del self._stops.lines[int(arg)]
        else:
            self.error(f"there is no stop at `{arg}`: `b` lists them")

    def _nothing(self, arg: str) -> None:
        """Not there in a kernel: `help` lists what is."""
        self.error("this is not there in a kernel: `help` lists what is")

    do_c = do_cont = do_continue
    do_n, do_s, do_r, do_q, do_exit, do_t, do_a = do_next, do_step, do_return, do_quit, do_quit, do_thread, do_args
    do_b, do_cl = do_break, do_clear
    do_tbreak: Any = _nothing
    do_jump = do_j = do_until = do_unt = do_commands = do_condition = do_ignore = _nothing
    do_enable = do_disable = do_run = do_restart = do_debug = do_retval = do_rv = _nothing


def _read_position(text: str) -> Dim3:
    numbers = [int(part) for part in text.strip("()").split(",") if part]
    if not 1 <= len(numbers) <= 3:
        raise ValueError(text)
    x, y, z = [*numbers, 0, 0][:3]
    return x, y, z


def _number(position: Dim3, shape: Dim3) -> int:
    if not all(0 <= at < size for at, size in zip(position, shape, strict=True)):
        raise ValueError(position)
    return position[0] + shape[0] * (position[1] + shape[1] * position[2])


def _position(number: int, shape: Dim3) -> Dim3:
    x, y, _ = shape
    return number % x, number // x % y, number // x // y
