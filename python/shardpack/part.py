"""Which samples of a dataset, and how often."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ._stores import Settings, Store
from .errors import UsageError
from .running import PathLike


@dataclass(frozen=True)
class Part:
    """A dataset of a mix.

    Args:
        path: Its folder, or its URL.
        range: Only the samples of this range of numbers.
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
    range: range | None = None
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
            "classes": None if self.classes is None else [_label(one, classes) for one in self.classes],
            "samples": None if self.samples is None else [int(one) for one in self.samples],
            "part": None if self.part is None else [*map(float, self.part), self.part_seed],
        }
        chosen = {name: value for name, value in chosen.items() if value is not None}
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)}: one of them chooses the samples")
        times: Any = "once"
        if self.total is not None and self.balance is not None:
            raise UsageError("total and balance: one of them says how often samples come")
        if self.total is not None:
            times = {"total": self.total}
        if self.balance is not None:
            times = {"classes": float(self.balance)}
        stored = {"path": os.fspath(self.path), "store": store.pairs, "cache": store.cache}
        return {**stored, "subset": chosen or "all", "times": times}


def _range(numbers: range) -> list[int]:
    if numbers.step != 1:
        raise UsageError(f"{numbers}: a range with a step", help="samples=[…] takes any numbers")
    if numbers.start < 0:
        raise UsageError(f"{numbers}: samples count from 0")
    return [numbers.start, max(numbers.stop, numbers.start)]


def _label(one: int | str, classes: Sequence[str]) -> int:
    if not isinstance(one, str):
        return int(one)
    if one not in classes:
        raise UsageError(f"no class {one!r}: there are {len(classes)}", help="Dataset(path).classes has them")
    return list(classes).index(one)
