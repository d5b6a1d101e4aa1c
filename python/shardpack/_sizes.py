"""Sizes in bytes, as numbers or text."""

from __future__ import annotations

import operator
from typing import Any

from . import _native
from .errors import UsageError

#: Longest value that an error shows, in characters.
_SHOWN = 60


def shown(value: object) -> str:
    """Return a value as errors show it: short, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def in_bytes(size: Any, what: str) -> int:
    """Return a number of bytes from an int, or from text such as `256MiB` or `1.5GB`."""
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
