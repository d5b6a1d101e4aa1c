"""Sizes as people write them."""

from __future__ import annotations

from . import _native
from .errors import UsageError


def in_bytes(size: int | str, what: str) -> int:
    """A number of bytes, or a text that the command line takes: `256MiB`, `1.5GB`."""
    if isinstance(size, str):
        try:
            return _native.size(size)
        except ValueError as error:
            raise UsageError(f"{what}={size!r}: {error}") from None
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(f"{what}={size!r}: a number of bytes or a text such as '256MiB'")
    return size
