"""Runs a command in a child process that ends with its parent, and reports as lines of JSON on stdout.

    python -m shardpack._child PARENT pack --json …

PARENT is the parent's process id. Lines are `{"progress": […]}`, as in `Progress`, several a second, and finally
`{"code": …, "document": …, "notes": […]}`. SIGTERM ends the command cleanly, with code 130.
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
#: Interval of progress lines, in seconds.
_EVERY_S = 0.3
#: Time for a command to end cleanly, in seconds.
_GRACE_S = 20.0
#: Length of the output of a failed process that its error quotes.
_SAID_BYTES = 2000


class Lost(Exception):
    """The child was killed, perhaps for lack of memory; another attempt may succeed."""


class Ended(Exception):
    """SIGTERM."""


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when the parent's thread ends."""
    # Set by the child itself: a function between fork and exec is not safe with threads.
    if ctypes.CDLL(None, use_errno=True).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        # The parent has already ended.
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Run the command in `sys.argv`, and return its exit code."""
    _die_with(int(sys.argv[1]))
    is_ended = threading.Event()
    # A terminal sends Ctrl-C to all its processes; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # `tell` raises `Ended`, so that no line is cut.
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
    """Run a command in a child process, as `running.follow`; an exception here ends the command cleanly.

    Args:
        arguments: Command line without the program.
        tell: Receives the progress several times a second.
        folder: Working folder of the child, if it exists.

    Raises:
        Lost: If the child is killed.
        RuntimeError: If the child fails otherwise, with its output.
    """
    package = str(Path(__file__).resolve().parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    # The child imports this process's modules, and none from its working folder.
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
        # A second thread reads: a thread that waits for a line does not notice an interrupt.
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
