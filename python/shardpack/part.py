"""One dataset of a mix: which samples a loader takes, and how often."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._options import number, numbers, several, text, whole
from ._sizes import shown
from ._stores import Settings, Store
from .errors import UsageError
from .running import PathLike


@dataclass(frozen=True)
class Part:
    """One dataset of a mix: its path, a selection of its samples, and how often they appear.

    `range`, `classes`, `samples`, `part` and `where` select the samples that all of them select. At most one of
    `total` and `balance` repeats samples. Counts per epoch are exact. `Loader` checks the values.

    Args:
        path: Folder of the dataset, or its URL as a string.
        range: Only samples with these numbers, as `range(10, 20)` or `(10, 20)`; the end is exclusive.
        classes: Only samples of these classes, by label or by name.
        samples: Only samples with these numbers, in any order, each once.
        part: Only the samples between two shares, 0 to 1, of a random order that `part_seed` fixes. `(0.0, 0.9)` to
            train and `(0.9, 1.0)` to validate have no sample in common, whatever else selects samples.
        part_seed: Seed of the random order of `part`.
        where: Only samples for which a condition is true: `"width >= 256 and aesthetic > 5"`. Columns are `width`,
            `height`, `bytes`, `label`, `class`, `key`, `path`, `kind` and the components.
        total: Number of samples per epoch. Each sample comes equally often, give or take one.
        balance: Exponent, 0 to 1. The epoch length stays; each class gets a share in proportion to its size to this
            power. 0: equal shares. 1: shares as stored.
        weight: Share of an epoch of `Loader(epoch_samples=…)`, above 0. All parts have a weight, or none. Replaces
            `total` and `balance`. A dict has weights by epoch: `{0: 1, 10: 0}` is 0 from epoch 10 on.
        store: Object store settings for this URL, in place of the `store` of the `Loader`; see `Dataset`.

    Example:
        parts = [shardpack.Part("packed", weight=3), shardpack.Part("more", weight=1)]
        loader = shardpack.Loader(parts, 64, transform="train", epoch_samples=400)
        print(sum(int((batch.sources == 1).sum()) for batch in loader))  # 100
    """

    path: PathLike
    range: range | tuple[int, int] | None = None
    classes: Sequence[int | str] | None = None
    samples: Sequence[int] | None = None
    part: tuple[float, float] | None = None
    part_seed: int = 0
    where: str | None = None
    total: int | None = None
    balance: float | None = None
    weight: float | Mapping[int, float] | None = None
    # Values may be secrets.
    store: Store | None = field(default=None, repr=False)

    @property
    def _selects(self) -> bool:
        """Whether some samples may be left out."""
        return any(one is not None for one in (self.range, self.classes, self.samples, self.part, self.where))

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
            "where": None if self.where is None else text(self.where, "where"),
        }
        times: Any = "once"
        if self.total is not None and self.balance is not None:
            raise UsageError("total and balance: give only one")
        if self.total is not None:
            times = {"total": whole(self.total, "total")}
        if self.balance is not None:
            times = {"classes": number(self.balance, "balance", 0.0, 1.0)}
        stored = {"path": os.fspath(self.path), "store": store.pairs, "cache": store.cache}
        subset = [{name: value} for name, value in chosen.items() if value is not None]
        return {**stored, "subset": subset, "times": times}


def by_epoch(given: float | Mapping[int, float]) -> list[tuple[int, float]]:
    """Weights by the epoch from which on they apply, ascending."""
    if not isinstance(given, Mapping):
        return [(0, number(given, "weight"))]
    return sorted((whole(epoch, "weight"), number(weight, "weight", 0.0)) for epoch, weight in given.items())


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
