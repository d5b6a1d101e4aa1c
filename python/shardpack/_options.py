"""Checks of options by name, before the native part receives them. Invalid values raise `UsageError`."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from ._sizes import shown
from .errors import UsageError

#: Numbers of the native part are below this.
_END = 2**64

#: Options of torch's DataLoader, and their replacements.
_DATALOADER = {
    "batch_sampler": 'batch_size and last ("short", "drop", "pad") say how batches are made',
    "dataset": "the path of a packed dataset comes first",
    "drop_last": 'last="drop" leaves out an incomplete last batch; "short" and "pad" keep it',
    "generator": "seed=number chooses the order",
    "multiprocessing_context": "there are no worker processes: leave it out",
    "num_workers": "there are no worker processes; threads=number makes batches, all cores if it is left out",
    "persistent_workers": "there are no worker processes: leave it out",
    "prefetch_factor": "batches are prepared ahead automatically; ahead=bytes prepares more",
    "sampler": "shuffle, part, range, classes, samples, where and balance choose samples; rank and world_size divide them",
    "timeout": "there are no worker processes: leave it out",
    "worker_init_fn": "there are no worker processes; item.rng() is a generator for each sample",
}


def whole(value: Any, name: str, least: int = 0, end: int = _END) -> int:
    """Return an integer from `least` to `end - 1`; numpy integers count."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name}={shown(value)}: a whole number is wanted") from None
    if not least <= number < end:
        limit = "2^64 - 1" if end == _END else str(end - 1)
        raise UsageError(f"{name}={number}: {least} to {limit} are possible")
    return number


def whole_or_none(value: Any, name: str, least: int = 0, end: int = _END) -> int | None:
    """Return `whole`, or `None`."""
    return None if value is None else whole(value, name, least, end)


def number(value: Any, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a finite number from `least` to `most`."""
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise UsageError(f"{name}={shown(value)}: a number is wanted")
    if not least <= float(value) <= most:
        limits = f"{least:g} or more is" if most == math.inf else f"{least:g} to {most:g} are"
        raise UsageError(f"{name}={value!r}: {limits} possible")
    return float(value)


def numbers(value: Any, name: str, count: int, least: float = -math.inf, most: float = math.inf) -> list[float]:
    """Return `count` such numbers."""
    found = [] if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) else list(value)
    if len(found) != count:
        raise UsageError(f"{name}={shown(value)}: {count} numbers are wanted")
    return [number(one, name, least, most) for one in found]


def flag(value: Any, name: str) -> bool:
    """Return a bool."""
    # numpy's bool is another class; numpy is not imported to check.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise UsageError(f"{name}={shown(value)}: True or False is wanted")
    return bool(value)


def choice(value: Any, name: str, names: Sequence[str]) -> str:
    """Return one of `names`."""
    if not isinstance(value, str) or value not in names:
        raise UsageError(f"{name}={shown(value)}: there are {', '.join(names)}")
    return value


def text(value: Any, name: str) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={shown(value)}: text is wanted")
    return value


def several(value: Any, name: str, what: str) -> list[Any]:
    """Return a list of values, named `what` in errors; a string is refused."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise UsageError(f"{name}={shown(value)}: a list of {what} is wanted")
    return list(value)


def function(value: Any, name: str) -> Any:
    """Return a function, or `None`."""
    if value is not None and not callable(value):
        raise UsageError(f"{name}={shown(value)}: a function is wanted")
    return value


def refuse(unknown: Sequence[str], known: Iterable[str]) -> None:
    """Raise an error for the first unknown option, with a suggestion."""
    for name in unknown:
        if name in _DATALOADER:
            raise UsageError(f"{name} is an option of torch's DataLoader, and none of a Loader", help=_DATALOADER[name])
        near = difflib.get_close_matches(name, list(known), 1)
        raise UsageError(f"no option {name!r}", help=f"perhaps {near[0]}" if near else None)
