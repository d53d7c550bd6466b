"""The command line: ``python -m kaio demo [IMAGE] [--out PNG] [--device DEVICE]``.

Exit codes: 0 all is well, 1 the work failed or a check did, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kaio import __version__
from kaio.errors import KaioError

if TYPE_CHECKING:
    from kaio.demo import Result, StageReport

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; the result goes to stdout, what is wrong to stderr."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return int(options.run(options))
    except KaioError as problem:
        print(f"kaio: {problem}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kaio", description="Typed GPU kernels in Python.")
    parser.add_argument("--version", action="version", version=f"kaio {__version__}")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    demo = commands.add_parser("demo", help="an image pipeline in kaio kernels, checked against NumPy")
    demo.add_argument("image", nargs="?", type=Path, help="any picture (default: a portrait of Grace Hopper)")
    demo.add_argument("--out", type=Path, default=Path("kaio-demo.png"), help="where to write (default: %(default)s)")
    demo.add_argument("--device", help="cpu, cuda:0, ... (default: the first GPU, without one the CPU)")
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    # Imported here, so that `--help` and `--version` cost nothing.
    from kaio.demo import PORTRAIT, process, read_picture, write_picture
    from kaio.runtime import Device

    path = options.image or PORTRAIT
    rgb = read_picture(path)
    device = Device(options.device) if options.device else Device()
    height, width = rgb.shape[:2]
    print(f"{path.name}, {width} x {height} pixels, on {device.name}")
    result = process(device, rgb)
    _print_stages(result)
    write_picture(options.out, result.sheet())
    print(f"wrote {options.out}")
    return 0 if result.is_right else 1


def _print_stages(result: Result) -> None:
    print(f"{'stage':<12}{'time':>12}{'PTX':>10}   against NumPy")
    for stage in result.stages:
        print(f"{stage.name:<12}{stage.elapsed_ms:>9.3f} ms{stage.ptx_nbytes:>8} B   {_verdict(stage)}")
    if any(stage.difference for stage in result.stages):
        print("(last bits may differ: products are fused into sums, and `contract=False` switches that off)")


def _verdict(stage: StageReport) -> str:
    if not stage.is_right:
        return f"WRONG: off by {stage.difference:.3g}, allowed {stage.allowed:.3g}"
    return "equal" if stage.difference == 0 else f"within {stage.difference:.2g} (allowed {stage.allowed:.2g})"
