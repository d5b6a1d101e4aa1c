"""How the commands run inside Python: progress, Ctrl-C, results and errors."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Union

from . import _native, errors

T = TypeVar("T", bound="Progress")
PathLike = Union[str, "os.PathLike[str]"]
#: A value as the command line takes it: `"256MiB"`, `4`, a path.
Value = Union[str, int, float, "os.PathLike[str]"]
#: One, or several for an option that may be given more than once.
Values = Union[Value, Sequence[Value], Mapping[str, Union[Value, Sequence[Value]]]]

#: How often progress is told, and Ctrl-C looked after, in seconds.
_PATIENCE_S = 0.05


@dataclass(frozen=True)
class Progress:
    """How far a command is.

    Attributes:
        verb: What it does: `walking`, `packing`, `reading`, …
        samples: Samples that are done.
        total_samples: Samples in all; 0 where that is not known.
        bytes: Bytes that are done.
        total_bytes: Bytes in all; 0 where that is not known.
    """

    verb: str
    samples: int
    total_samples: int
    bytes: int
    total_bytes: int


@dataclass(frozen=True, repr=False)
class Report:
    """What came of a command.

    Attributes:
        ok: Whether all is right: the exit code of the program would be 0.
        document: What `shardpack COMMAND --json` prints (docs/reference/json.schema.json); its fields are attributes of the report too.
        notes: The lines that the program prints to stderr beside progress. Those that begin with `note` are warnings too, of the class
            `running.Note`.
    """

    ok: bool
    document: dict[str, Any]
    notes: list[str]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["document"][name]
        except KeyError:
            raise AttributeError(
                f"no field {name!r}: there are {', '.join(self.__dict__.get('document', {}))}"
            ) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.document]

    def __repr__(self) -> str:
        return f"Report(ok={self.ok}, fields: {', '.join(self.document)}; print() shows them)"

    def __str__(self) -> str:
        return "\n".join([f"ok: {self.ok}", *_lines(self.document, 0)])


#: Items of a list that `print(report)` shows.
_SHOWN = 5


def _lines(value: Any, depth: int) -> list[str]:
    """A value of JSON as lines: names and values, of lists the first items."""
    before = "  " * depth
    if isinstance(value, dict):
        lines = []
        for name, one in value.items():
            if isinstance(one, (dict, list)) and one:
                lines += [f"{before}{name}: {len(one)}" if isinstance(one, list) else f"{before}{name}:"]
                lines += _lines(one, depth + 1)
            else:
                lines.append(f"{before}{name}: {_shown(one)}")
        return lines
    lines = []
    for one in value[:_SHOWN]:
        if isinstance(one, (dict, list)):
            first, *others = _lines(one, depth + 1) or [before]
            lines += [f"{before}- {first.lstrip()}", *others]
        else:
            lines.append(f"{before}- {_shown(one)}")
    return lines + [f"{before}… and {len(value) - _SHOWN} more"] * (len(value) > _SHOWN)


def _shown(value: Any) -> str:
    """A value on one line: what is not printable comes from files, and could draw on a terminal."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() else repr(text)


class Note(UserWarning):
    """What a command says beside its result: where it guessed, or what is left out."""


def run(command: str, places: Sequence[str], given: Mapping[str, Any]) -> Report:
    """Runs a command with what a function was given: the arguments called `places` by place, `progress`, and options of the command line in
    Python's spelling."""
    options = dict(given)
    progress: bool | Callable[[Progress], None] | None = options.pop("progress")
    tell = teller(progress, _bar)
    try:
        done = report(*follow(_native.Command(arguments(command, places, options)), tell))
    finally:
        if tell is not None and hasattr(tell, "close"):
            tell.close()
    for line in done.notes:
        if line.startswith("note "):
            # Told of the line that called the command.
            warnings.warn(line.removeprefix("note ").strip(), Note, stacklevel=3)
    return done


def arguments(command: str, places: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The command line, behind the name of the program."""
    words = [command, "--json"]
    for name, value in options.items():
        if value is None or value is False or name in places:
            continue
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [f"{flag}={_text(one)}" for one in value]
        elif isinstance(value, dict):
            words += [f"{flag}={name}={_text(one)}" for name, several in value.items() for one in _several(several)]
        else:
            words.append(f"{flag}={_text(value)}")
    return [*words, "--", *(_text(one) for name in places for one in _several(options[name]))]


def follow(running: _native.Command, tell: Callable[[Progress], None] | None) -> tuple[int, dict[str, Any], list[str]]:
    """Waits for a command, and tells of it: exit code, document, and what it said. What is raised meanwhile interrupts it."""
    try:
        while not running.is_finished():
            time.sleep(_PATIENCE_S)
            if tell is not None:
                tell(Progress(*running.progress()))
        if tell is not None:
            # What was done since, so that a bar ends at its end.
            tell(Progress(*running.progress()))
    except BaseException:
        # Ctrl-C, or an exception of the caller's: what is under way ends in good order, and the same call goes on.
        running.interrupt()
        running.finish()
        raise
    code, printed, notes = running.finish()
    return code, json.loads(printed) if printed.strip() else {}, notes


def report(code: int, document: dict[str, Any], notes: Sequence[str], where: str | None = None) -> Report:
    """What came of a command that ended so; the error that it ended with is raised, with `where` before its message."""
    error = document.get("error")
    if error is not None:
        kinds = {"data": errors.DataError, "usage": errors.UsageError, "interrupted": errors.Interrupted}
        kind = kinds.get(error["kind"], errors.MachineError)
        message = error["message"] if where is None else f"{where}: {error['message']}"
        raised = kind(message, error["file"], error["sample"], error["byte"], error["help"])
        raised.document = document  # type: ignore[attr-defined]
        raise raised
    return Report(code == 0, document, [line for line in notes if not line.startswith(("error: ", "  help: "))])


def _several(value: Any) -> list[Any]:
    if value is None or isinstance(value, (str, int, float, os.PathLike)):
        return [] if value is None else [value]
    return list(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def teller(
    progress: bool | Callable[[T], None] | None, bar: Callable[[], Callable[[T], None]]
) -> Callable[[T], None] | None:
    """What is told of progress: a function that was given, or a bar."""
    if callable(progress):
        return progress
    if progress is None:
        progress = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    return bar() if progress else None


def _bar() -> Callable[[Progress], None]:
    try:
        return _Bar()
    except ImportError:
        return _Line()


class _Line:
    """One line a thing that is done, written over itself, where there is no tqdm."""

    def __init__(self) -> None:
        self._verb, self._line = "", ""

    def __call__(self, now: Progress) -> None:
        if now.verb != self._verb:
            self.close()
            self._verb = now.verb
        of = f" of {now.total_samples:,}" if now.total_samples else ""
        line = f"{now.verb}: {now.samples:,}{of} samples, {now.bytes / 2**20:,.1f} MiB"
        if line != self._line and now.verb:
            self._line = line
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leaves the last line as it is."""
        if self._line:
            print(file=sys.stderr)
        self._line = ""


class _Bar:
    """tqdm's, one for each thing that is done."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self._new, self._bar, self._verb = tqdm, None, ""

    def __call__(self, now: Progress) -> None:
        if now.verb != self._verb:
            self.close()
            self._verb = now.verb
            self._bar = self._new(
                total=now.total_bytes or None, desc=now.verb, unit="B", unit_scale=True, unit_divisor=1024
            )
        if self._bar is not None:
            self._bar.update(now.bytes - self._bar.n)

    def close(self) -> None:
        """Leaves the last bar as it is."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None
