"""Which samples of a dataset, and how often."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._options import number, numbers, several, whole
from ._sizes import shown
from ._stores import Settings, Store
from .errors import UsageError
from .running import PathLike


@dataclass(frozen=True)
class Part:
    """A dataset of a mix.

    Args:
        path: Its folder, or its URL.
        range: Only the samples of this range of numbers, as `range(10, 20)` or `(10, 20)`.
        classes: Only these classes, by label or by name.
        samples: Only these samples, by their numbers.
        part: Only the samples from one share to another in a random order that `part_seed` fixes: `(0.0, 0.9)` to train and
            `(0.9, 1.0)` to validate have none in common.
        part_seed: See `part`.
        total: So many samples of it come in an epoch.
        balance: As many as there are, divided among the classes in proportion to their sizes to this power: 0 the same for each, 1 as
            they are.
        weight: Its share of an epoch of `Loader(epoch_samples=…)`; then all parts have one.
        store: Of a URL, settings of its store instead of those of the `Loader`; see `Dataset`.
    """

    path: PathLike
    range: range | tuple[int, int] | None = None
    classes: Sequence[int | str] | None = None
    samples: Sequence[int] | None = None
    part: tuple[float, float] | None = None
    part_seed: int = 0
    total: int | None = None
    balance: float | None = None
    weight: float | None = None
    # Values may be secrets.
    store: Store | None = field(default=None, repr=False)

    def _request(self, classes: Sequence[str], store: Settings) -> dict[str, Any]:
        chosen = {
            "range": None if self.range is None else _range(self.range),
            "classes": None
            if self.classes is None
            else [_label(one, classes) for one in several(self.classes, "classes", "labels and names")],
            "samples": None
            if self.samples is None
            else [whole(one, "samples") for one in several(self.samples, "samples", "numbers of samples")],
            "part": None
            if self.part is None
            else [*numbers(self.part, "part", 2, 0.0, 1.0), whole(self.part_seed, "part_seed")],
        }
        chosen = {name: value for name, value in chosen.items() if value is not None}
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)}: one of them chooses the samples")
        times: Any = "once"
        if self.total is not None and self.balance is not None:
            raise UsageError("total and balance: one of them says how often samples come")
        if self.total is not None:
            times = {"total": whole(self.total, "total")}
        if self.balance is not None:
            times = {"classes": number(self.balance, "balance", 0.0, 1.0)}
        stored = {"path": os.fspath(self.path), "store": store.pairs, "cache": store.cache}
        return {**stored, "subset": chosen or "all", "times": times}


def _range(given: Any) -> list[int]:
    if isinstance(given, range):
        if given.step != 1:
            raise UsageError(f"{given}: a range with a step", help="samples=[…] takes any numbers")
        start, end = given.start, given.stop
    elif isinstance(given, (list, tuple)) and len(given) == 2:
        start, end = given
    else:
        raise UsageError(f"range={shown(given)}: the first number and the one behind the last", help="range=(0, 1000)")
    start, end = whole(start, "range"), whole(end, "range")
    return [start, max(end, start)]


def _label(one: int | str, classes: Sequence[str]) -> int:
    if not isinstance(one, str):
        return whole(one, "classes", -(2**63), 2**63)
    if one not in classes:
        raise UsageError(f"no class {one!r}: there are {len(classes)}", help="Dataset(path).classes has them")
    return list(classes).index(one)
