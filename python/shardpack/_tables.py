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
    if start and hasattr(rows, "__len__") and len(rows) < start:
        raise DataError(f"{len(rows):,} rows, and {start:,} are kept: these are other rows")
    has_items = hasattr(rows, "__getitem__") and hasattr(rows, "__len__") and not isinstance(rows, Mapping)
    if package == "pandas":
        for at in range(start, len(rows), _CHUNK):
            part = rows.iloc[at : at + _CHUNK]
            missing = part.select_dtypes(exclude="number").isna()
            records = part.to_dict("records")
            for number, name in zip(*missing.to_numpy().nonzero()):
                records[number][missing.columns[name]] = None
            yield from records
    elif package == "pyarrow":
        for at in range(start, rows.num_rows, _CHUNK):
            yield from rows.slice(at, _CHUNK).to_pylist()
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


def with_features(rows: Any, label: str | None) -> tuple[Any, Sequence[str] | None, dict[str, str]]:
    """Return rows, names of their classes, and types of their columns, as the source of the rows has them.

    Images and sounds of a dataset of Hugging Face are the bytes that are stored.
    """
    package = type(rows).__module__.partition(".")[0]
    if package == "polars":
        rows = rows.to_arrow()
    if package in ("polars", "pyarrow"):
        return rows, None, _types_of_arrow(rows.schema)
    if package == "pandas":
        names = [str(name) for name in rows.columns]
        _refuse_double(names)
        kinds = {name.lower(): getattr(dtype, "kind", "O") for name, dtype in zip(names, rows.dtypes)}
        dtypes = {name.lower(): str(dtype) for name, dtype in zip(names, rows.dtypes)}
        return (
            rows,
            None,
            {name: dtypes[name] for name, kind in kinds.items() if kind in "fc" and dtypes[name].islower()},
        )
    features = getattr(rows, "features", None) if package == "datasets" else None
    if features is None:
        return rows, None, {}
    class_names = None
    for name, feature in dict(features).items():
        kind = type(feature).__name__
        if kind in ("Image", "Audio"):
            rows = rows.cast_column(name, type(feature)(decode=False))
        if kind == "ClassLabel" and name in ((label,) if label else ("label", "cls")):
            class_names = feature.names
    return rows, class_names, {}


def _types_of_arrow(schema: Any) -> dict[str, str]:
    """Types of columns of numbers, and of lists of numbers; `to_pylist` forgets them."""
    _refuse_double(schema.names)
    types = {}
    for field in schema:
        kind, shape = field.type, ""
        while hasattr(kind, "value_type") and str(kind).partition("<")[0] in ("list", "large_list", "fixed_size_list"):
            kind, shape = kind.value_type, f"{shape},n" if shape else "n"
        text = {"float": "float32", "double": "float64", "halffloat": "float16"}.get(str(kind), str(kind))
        is_whole = text.startswith(("int", "uint"))
        if text in ("float16", "float32", "float64") or is_whole and (shape or field.name not in ("label", "cls")):
            types[field.name.lower()] = f"{text}[{shape}]" if shape else text
    return types


def _refuse_double(names: Sequence[str]) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise UsageError(f"two columns are called {name}", help="rename one of them")
