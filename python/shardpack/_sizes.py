"""Sizes as people write them."""

from __future__ import annotations

import operator
from typing import Any

from . import _native
from .errors import UsageError

#: Characters of a value that an error shows.
_SHOWN = 60


def shown(value: object) -> str:
    """A value as an error shows it: short, and on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def in_bytes(size: Any, what: str) -> int:
    """A number of bytes, or a text that the command line takes: `256MiB`, `1.5GB`."""
    if isinstance(size, str):
        try:
            return _native.size(size)
        except ValueError as error:
            raise UsageError(f"{what}={size!r}: {error}") from None
    try:
        number = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = -1
    if not 0 <= number < 2**64:
        raise UsageError(f"{what}={shown(size)}: a number of bytes or a text such as '256MiB'")
    return number
