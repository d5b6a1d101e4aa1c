"""Exceptions of shardpack: one tree, each with the place of the problem and a suggested action."""

from __future__ import annotations

from ._native import line


class Error(Exception):
    """Base class of shardpack's exceptions.

    `str(error)` is one line with place and message, and a second line with `help`. Characters that terminals do not
    show are escaped there as `\\u{…}`; the attributes are not escaped. Errors of commands also have `document`, the
    JSON that the command printed.

    Attributes:
        message: Description of the problem, without the place.
        file: Path or URL of the file, or `None`.
        sample: Key and path of the sample, or `None`.
        byte: Offset in bytes from the start of `file`, or `None`.
        help: Suggested action, or `None`.

    Example:
        try:
            shardpack.Loader("packed", 64, classes=["unicorn"])
        except shardpack.Error as error:
            print(error.message)  # no class 'unicorn': there are 10
            print(error.help)  # Dataset(path).classes has them
    """

    def __init__(
        self,
        message: str,
        file: str | None = None,
        sample: str | None = None,
        byte: int | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(message, file, sample, byte, help)
        self.message, self.file, self.sample, self.byte, self.help = message, file, sample, byte, help

    def __str__(self) -> str:
        byte = None if self.byte is None else f"byte {self.byte}"
        where = [part for part in (self.file, self.sample, byte) if part is not None]
        text = line(": ".join([", ".join(where), self.message] if where else [self.message]))
        return text if self.help is None else f"{text}\n  help: {line(self.help)}"


class DataError(Error, ValueError):
    """Invalid data: damaged bytes, or a refused sample. Also a `ValueError`.

    Example:
        try:
            shardpack.decode(b"not an image")
        except shardpack.DataError as error:
            print(type(error).__name__)  # DataError
    """


class UsageError(Error, ValueError):
    """Invalid request: an option, a path, or a folder that holds something else. Also a `ValueError`.

    Example:
        try:
            shardpack.Dataset("missing")
        except shardpack.UsageError as error:
            print(error.file)  # missing
    """


class MachineError(Error):
    """Failure of the machine: no space, no permission, a failing disk or server, or a panic in Rust.

    Example:
        try:
            shardpack.pack("missing", "out")
        except shardpack.MachineError as error:
            print(error.file)  # missing
    """


class Interrupted(Error, KeyboardInterrupt):
    """A command stopped by Ctrl-C or a signal; the same call resumes. Also a `KeyboardInterrupt`.

    Example:
        try:
            shardpack.pack("photos", "out")
        except KeyboardInterrupt:
            print("run the same call to resume")
    """
