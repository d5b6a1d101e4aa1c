"""Rows of datasets, tables and generators, from any row on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .errors import DataError, UsageError

#: Rows of a table that are converted at once.
_CHUNK = 1024


def length(rows: Any) -> int:
    try:
        return len(rows)
    except TypeError:
        return 0


def rows_from(rows: Any, start: int) -> Iterator[Any]:
    """The rows from number `start` on."""
    package = type(rows).__module__.partition(".")[0]
    has_items = hasattr(rows, "__getitem__") and hasattr(rows, "__len__") and not isinstance(rows, Mapping)
    if package == "pandas":
        for at in range(start, len(rows), _CHUNK):
            part = rows.iloc[at : at + _CHUNK]
            missing = part.select_dtypes(exclude="number").isna()
            records = part.to_dict("records")
            for number, name in zip(*missing.to_numpy().nonzero()):
                records[number][missing.columns[name]] = None
            yield from records
    elif package == "polars":
        yield from rows[start:].iter_rows(named=True)
    elif package == "pyarrow":
        for batch in rows.slice(start).to_batches(_CHUNK):
            yield from batch.to_pylist()
    elif package == "datasets":
        yield from rows.skip(start) if start else rows
    elif has_items:
        for number in range(start, len(rows)):
            yield rows[number]
    elif callable(rows) and not isinstance(rows, Iterable):
        yield from rows(start=start)
    elif isinstance(rows, Iterable):
        drawn = iter(rows)
        dropped = sum(1 for _ in itertools.islice(drawn, start))
        if dropped < start:
            raise DataError(f"{dropped:,} rows, and {start:,} are kept: these are other rows")
        yield from drawn
    else:
        raise UsageError(
            f"{type(rows).__name__} yields no rows", help="an iterable of dicts, or a function of start, does"
        )


def with_features(rows: Any, label: str | None) -> tuple[Any, Sequence[str] | None]:
    """A dataset of Hugging Face with its images and sounds as the bytes that are stored, and the names of its classes."""
    features = getattr(rows, "features", None) if type(rows).__module__.partition(".")[0] == "datasets" else None
    if features is None:
        return rows, None
    names = None
    for name, feature in dict(features).items():
        kind = type(feature).__name__
        if kind in ("Image", "Audio"):
            rows = rows.cast_column(name, type(feature)(decode=False))
        if kind == "ClassLabel" and name in ((label,) if label else ("label", "cls")):
            names = feature.names
    return rows, names
