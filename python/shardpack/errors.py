"""What goes wrong: one tree of exceptions, each with the place and what helps."""

from __future__ import annotations

from ._native import line


class Error(Exception):
    """Whatever shardpack says is wrong. As text, what of it no terminal shows is written as `\\u{…}`; the attributes have it as it is.

    Attributes:
        message: What is wrong, without the place.
        file: The file that it is in, if it is in one.
        sample: Key and path of the sample, if it is about one.
        byte: Offset in bytes from the start of `file`, if there is one.
        help: What to do, if something helps.
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
    """The bytes are not what they should be: damage, or a sample that was refused."""


class UsageError(Error, ValueError):
    """The request does not fit: an option, a path, a folder that holds something else."""


class MachineError(Error):
    """The machine refused: no space, no permission, a failing disk."""


class Interrupted(Error, KeyboardInterrupt):
    """Ctrl-C, or a signal: the same call goes on where it was."""
