"""A command in a process of its own, for a process that looks after it: told as lines of JSON on stdout, and gone when that is gone.

    python -m shardpack._child PARENT pack --json …

PARENT is the id of the process that starts it. Lines are `{"progress": […]}`, as of `Progress`, several a second, and at last
`{"code": …, "document": …, "notes": […]}`. SIGTERM ends the command in good order, and the code is 130 then.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from . import _native
from .running import Progress, follow

#: `PR_SET_PDEATHSIG` of prctl(2).
_PARENT_DEATH_SIGNAL = 1
#: How often it tells how far it is, in seconds.
_EVERY_S = 0.3
#: How long a command may take to end in good order, in seconds.
_GRACE_S = 20.0
#: How much of what a process that failed said is told.
_SAID_BYTES = 2000


class Lost(Exception):
    """The process is gone and has not said how the command ended: killed, or out of memory. The same may work elsewhere."""


class Ended(Exception):
    """SIGTERM."""


def _die_with(parent: int) -> None:
    """Has the kernel kill this process when the thread that started it ends, and with that its process."""
    # A child sets it itself: a function between fork and exec is not safe where there are threads.
    if ctypes.CDLL(None, use_errno=True).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        # It was gone before.
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Runs the command of the command line, and gives its exit code."""
    _die_with(int(sys.argv[1]))
    is_ended = threading.Event()
    # A terminal's Ctrl-C goes to all of its processes: it is for the one that looks after this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Raised by `tell`, and not in the middle of a line.
    signal.signal(signal.SIGTERM, lambda _number, _frame: is_ended.set())
    last = 0.0

    def say(line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)

    def tell(progress: Progress) -> None:
        nonlocal last
        if is_ended.is_set():
            raise Ended
        if time.monotonic() - last >= _EVERY_S:
            last = time.monotonic()
            say({"progress": astuple(progress)})

    try:
        code, document, notes = follow(_native.Command(sys.argv[2:]), tell)
    except Ended:
        code, document, notes = 130, {}, []
    say({"code": code, "document": document, "notes": notes})
    return code


def run(
    arguments: Sequence[str], tell: Callable[[Progress], None], folder: str | None = None
) -> tuple[int, dict[str, Any], list[str]]:
    """Runs a command in such a process: exit code, document, notes. What is raised meanwhile ends it in good order.

    Args:
        arguments: The command line, behind the name of the program.
        tell: Is called several times a second.
        folder: That paths are relative to, if it is there.

    Raises:
        Lost: When the process is killed.
        RuntimeError: When it fails otherwise, with what it said.
    """
    package = str(Path(__file__).resolve().parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # Modules are those of this process, and none of the folder that it is started in.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "shardpack._child", str(os.getpid()), *arguments]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
            cwd=folder if folder is not None and os.path.isdir(folder) else None,
        ) as process,
    ):
        heard: dict[str, Any] = {}
        assert process.stdout is not None, "it is a pipe"
        # This thread must be able to notice that it is interrupted, which it does not where it waits for a line.
        listener = threading.Thread(target=_listen, args=(process.stdout, heard), daemon=True)
        try:
            listener.start()
            while process.poll() is None:
                time.sleep(0.1)
                if "progress" in heard:
                    tell(Progress(*heard["progress"]))
        except BaseException:
            _end(process)
            raise
        listener.join()
        if "code" in heard:
            return heard["code"], heard["document"], heard["notes"]
        said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_BYTES))
        last = said.read().decode(errors="replace").strip()
    if process.returncode < 0:
        raise Lost(f"its process was ended by {signal.Signals(-process.returncode).name}")
    raise RuntimeError(f"its process ended with exit code {process.returncode}: {last}")


def _listen(lines: Any, heard: dict[str, Any]) -> None:
    for line in lines:
        heard.update(json.loads(line))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
    except BaseException:
        process.kill()
        raise


if __name__ == "__main__":
    sys.exit(main())
