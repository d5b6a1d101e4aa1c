"""The samples that an epoch reads."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import shardpack


def loader(path: Any, batch_size: int = 16, **options: Any) -> shardpack.Loader:
    return shardpack.Loader(path, batch_size, output="numpy", **{"seed": 3, **options})


def numbers(made: shardpack.Loader) -> list[int]:
    """The samples of an epoch, in its order."""
    return [int(number) for batch in made for number in batch.samples]


def test_one_pass_reads_one_epoch(packed: Path) -> None:
    known = loader(packed, epochs=1)
    assert len(numbers(known)) == 300
    made = loader(packed)
    first = numbers(made)
    # The read-ahead of a known number of epochs would begin at once.
    time.sleep(0.2)
    assert made.stats()["read_bytes"] == known.stats()["read_bytes"] > 0
    second = numbers(made)
    assert made.receipt().proves(made.expected(1))
    ahead = loader(packed, epochs=2)
    assert [numbers(ahead), numbers(ahead)] == [first, second]
    assert ahead.stats()["read_bytes"] == made.stats()["read_bytes"]
