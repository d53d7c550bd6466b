"""Starting the process of a worker.

Not by `multiprocessing`, which runs the main module again: a worker starts the same from a script without
``if __name__ == "__main__"``, a notebook or a prompt. It takes no time to import what it does not need, so that a new
one is there soon after a fault: not even kaio's own packages run, of which it needs a few files.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path

from kaio.errors import UnsupportedFeatureError
from kaio.runtime.isolated.shared import Shared

__all__ = ["start_process"]

# The packages stand for themselves, without their `__init__`.
_BOOT = """
import marshal, sys, types
sys.path[:], root = marshal.loads(bytes.fromhex(sys.argv[5]))
for name in ("kaio", "kaio.runtime", "kaio.runtime.cuda", "kaio.runtime.isolated"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [root + name[4:].replace(".", "/")]
from kaio.runtime.isolated.worker import main
main()
"""
_ROOT = str(Path(__file__).parents[2])  # of the package


def start_process(link: int, shared: Shared) -> subprocess.Popen[bytes]:
    """A worker that serves the socket with this descriptor; what it writes to stderr is to be read."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise UnsupportedFeatureError(
            "an isolated device starts a process of Python, and this program does not say where Python is",
            help="set `sys.executable` to a Python that has what this one has",
        )
    where = marshal.dumps(([str(entry) for entry in sys.path], _ROOT)).hex()
    numbers = [str(number) for number in (link, shared.descriptor, shared.nbytes, os.getpid())]
    # Without `site`: what the environment starts there takes time, and the path is that of this process anyway.
    command = [sys.executable, "-S", "-P", "-W", "ignore", "-c", _BOOT, *numbers, where]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=(link, shared.descriptor),
        start_new_session=True,  # Ctrl-C at a terminal goes to all of a session's processes in front
    )
