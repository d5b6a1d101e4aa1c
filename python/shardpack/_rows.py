"""Whether the source of `pack` is rows, and the arguments of both kinds of sources. Imports nothing that starts slowly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

from .errors import UsageError
from .running import Report

#: Rows, or a function that returns rows from row `start` on.
Rows = Union[Iterable[Any], Callable[..., Iterable[Any]]]


def is_rows(source: object) -> bool:
    """Whether `source` yields rows, and is no path or list of paths."""
    if source is None or isinstance(source, (str, os.PathLike)):
        return False
    return not (isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, os.PathLike)))


def pack_given(given: Mapping[str, Any]) -> Report:
    """Pack rows with the arguments of `pack`."""
    from .rows import pack

    options = {name: value for name, value in given.items() if value is not None and value is not False}
    if "dst" not in options:
        raise UsageError("rows need a destination", help="shardpack.pack(rows, dst)")
    return pack(options.pop("src"), options.pop("dst"), **options)


def has_parts(dst: Any, spool: Any) -> bool:
    """Whether the parts of `dst` are of rows."""
    if spool is not None:
        return True
    folder = os.fspath(dst).rstrip("/") + ".rows"
    return os.path.isdir(folder) and any(name.startswith("part-") for name in os.listdir(folder))


def merge_given(given: Mapping[str, Any]) -> Report:
    """Pack the rows of parts with the arguments of `merge`."""
    from .rows import merge

    if given["verify"]:
        raise UsageError("verify is for parts of a source, and these are rows", help="shardpack.verify(dst) afterwards")
    options = {name: given[name] for name in ("work", "jobs", "store") if given[name] is not None}
    return merge(given["folder"], spool=given["spool"], progress=given["progress"], **options)


def of_paths(given: Mapping[str, Any], of_rows: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of `pack` for a path, without those for rows."""
    for name in of_rows:
        if given[name]:
            raise UsageError(f"{name} is for rows, and the source is a path")
    return {name: value for name, value in given.items() if name not in of_rows}
