"""Sizes as people write them."""

from __future__ import annotations

import re

from .errors import UsageError

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def in_bytes(size: int | str, what: str) -> int:
    """`256MiB`, `1.5G` or a number of bytes, as the command line takes them."""
    if isinstance(size, bool) or not isinstance(size, (int, str)):
        raise UsageError(f"{what}={size!r}: a number of bytes or a text such as '256MiB'")
    if isinstance(size, int):
        if size < 0:
            raise UsageError(f"{what}={size}: below 0")
        return size
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", size)
    unit = found.group(2).upper() if found else None
    if found is None or unit is None:
        raise UsageError(f"{what}={size!r}: write 256MiB, 2G or a number of bytes")
    factor = _DECIMAL.get(unit) or _UNITS.get(unit.removesuffix("IB"))
    if factor is None:
        raise UsageError(f"{what}={size!r}: there are B, KiB, MiB, GiB, TiB, KB, MB, GB, TB")
    return int(float(found.group(1)) * factor)
