"""Runs commands inside Python: progress, Ctrl-C, results and errors."""

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
#: Value of a command line option: `"256MiB"`, `4`, a path.
Value = Union[str, int, float, "os.PathLike[str]"]
#: One value, or several for a repeatable option.
Values = Union[Value, Sequence[Value], Mapping[str, Union[Value, Sequence[Value]]]]

#: Interval of progress reports and checks for Ctrl-C, in seconds.
_PATIENCE_S = 0.05


@dataclass(frozen=True)
class Progress:
    """Progress of a command.

    Attributes:
        verb: Current phase: `walking`, `packing`, `reading`, …
        samples: Samples done.
        total_samples: Total number of samples; 0 if unknown.
        bytes: Bytes done.
        total_bytes: Total number of bytes; 0 if unknown.

    Example:
        seen: list[shardpack.Progress] = []
        shardpack.verify("packed", progress=seen.append)
        print(type(seen[-1]).__name__)  # Progress
    """

    verb: str
    samples: int
    total_samples: int
    bytes: int
    total_bytes: int


@dataclass(frozen=True, repr=False)
class Report:
    """Result of a command.

    The fields of `document` are also attributes of the report, and `print(report)` shows them.

    Attributes:
        ok: Whether the exit code of the program would be 0.
        document: JSON that `shardpack COMMAND --json` prints, parsed (docs/reference/json.schema.json).
        notes: Lines that the program prints to stderr, without progress. Lines that begin with `note` are also warnings
            (`running.Note`).

    Example:
        report = shardpack.inspect("packed")
        print(report.ok, report.datasets[0]["samples"])  # True 300
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
    """A JSON value as lines, with the first items of lists."""
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
    """A value on one line; text that is not printable is escaped, since it comes from files."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() else repr(text)


class Note(UserWarning):
    """Warning about a guess of a command, or about data that it left out.

    Example:
        import warnings

        warnings.simplefilter("ignore", shardpack.running.Note)
    """


def run(command: str, places: Sequence[str], given: Mapping[str, Any]) -> Report:
    """Run a command.

    Args:
        command: Name of the command.
        places: Names of the positional arguments.
        given: Positional arguments, `progress`, and options in Python spelling, by name.

    Returns:
        Its report.
    """
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
            # Attributed to the line that called the command.
            warnings.warn(line.removeprefix("note ").strip(), Note, stacklevel=3)
    return done


def arguments(command: str, places: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Return the command line without the name of the program."""
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
    """Wait for a command and report its progress; an exception interrupts the command.

    Returns:
        Exit code, document, and lines for stderr.
    """
    try:
        while not running.is_finished():
            time.sleep(_PATIENCE_S)
            if tell is not None:
                tell(Progress(*running.progress()))
        if tell is not None:
            # The rest of the progress, so that a bar ends full.
            tell(Progress(*running.progress()))
    except BaseException:
        # Ctrl-C, or an exception of the caller: the command ends cleanly, and the same call resumes.
        running.interrupt()
        running.finish()
        raise
    code, printed, notes = running.finish()
    return code, json.loads(printed) if printed.strip() else {}, notes


def report(code: int, document: dict[str, Any], notes: Sequence[str], where: str | None = None) -> Report:
    """Return the report of a finished command, or raise its error, prefixed with `where`."""
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
    """Return the function that receives progress: the caller's, a bar, or `None`."""
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
    """Progress without tqdm: one line per phase, rewritten in place."""

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
        """End the last line."""
        if self._line:
            print(file=sys.stderr)
        self._line = ""


class _Bar:
    """Progress as a tqdm bar per phase."""

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
        """Close the last bar."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None
