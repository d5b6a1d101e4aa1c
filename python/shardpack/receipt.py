"""Receipts: proof of the samples that were seen in an epoch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _native


@dataclass(frozen=True)
class Expected:
    """Count and checksum of the samples of an epoch, which the joined receipts of all ranks must match.

    Attributes:
        samples: Number of samples.
        identities: Sum of the 128-bit sample identities modulo 2^128, as 32 hexadecimal digits.
        epoch: Number of the epoch, from 0.

    Example:
        loader = shardpack.Loader("packed", 64)
        print(loader.expected(0).samples)  # 300
    """

    samples: int
    identities: str
    epoch: int


@dataclass(frozen=True)
class Receipt:
    """Samples that one rank received in an epoch, or several ranks after `+` or `join`.

    The receipts of all ranks, and of all parts of an interrupted run, add up to `Loader.expected(epoch)` if and only if
    each sample is accounted for once.

    Attributes:
        json: One line of JSON to store or log; `Receipt(line)` reads it.

    Example:
        ranks = [shardpack.Loader("packed", 16, rank=rank, world_size=2) for rank in range(2)]
        for loader in ranks:
            for images, labels in loader:
                pass
        receipt = shardpack.Receipt.join(loader.receipt() for loader in ranks)
        print(receipt.proves(ranks[0].expected(0)))  # True
    """

    json: str

    @staticmethod
    def of_state(state: Mapping[str, Any]) -> Receipt | None:
        """Return the receipt in a state, of its rank and epoch so far.

        Args:
            state: Result of `Loader.state_dict`.

        Returns:
            The receipt; `None` at the start of an epoch.

        Raises:
            DataError: If the receipt is invalid.
        """
        told = state.get("receipt")
        if told is None:
            return None
        return Receipt(_native.join([json.dumps({name: value for name, value in told.items() if name != "rank"})]))

    def _read(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.json)
        return told

    @property
    def epoch(self) -> int:
        """Number of the epoch, from 0."""
        return int(self._read()["epoch"])

    @property
    def samples(self) -> int:
        """Number of samples handed out, each counted once; replacements count, skipped samples do not."""
        told = self._read()
        return int(told["samples"]) - len(told["skipped"])

    @property
    def repeated(self) -> int:
        """Number of samples handed out again so that all ranks have equally many; not counted in `samples`."""
        return int(self._read()["repeated"])

    @property
    def skipped(self) -> list[dict[str, Any]]:
        """Bad samples that were left out: for each, a dict with `sample` (its number) and `reason`."""
        return list(self._read()["skipped"])

    @property
    def replaced(self) -> list[dict[str, Any]]:
        """Bad samples that were replaced: dicts with `sample`, `reason` and `by` (number of the replacement)."""
        return list(self._read()["replaced"])

    def __add__(self, other: Receipt) -> Receipt:
        """Join with another receipt; see `join`."""
        if not isinstance(other, Receipt):
            return NotImplemented
        return Receipt(_native.join([self.json, other.json]))

    @staticmethod
    def join(receipts: Iterable[Receipt]) -> Receipt:
        """Join receipts of several ranks, or of several parts of a run.

        Args:
            receipts: Receipts of one epoch of one dataset or mix, at least one.

        Returns:
            One receipt for all their samples.

        Raises:
            UsageError: If datasets or epochs differ.
            DataError: If the JSON of a receipt is invalid.
            ValueError: If there is no receipt.
        """
        return Receipt(_native.join([receipt.json for receipt in receipts]))

    def proves(self, expected: Expected) -> bool:
        """Check that every expected sample is accounted for exactly once.

        Samples are accounted for if they were handed out, or named in `skipped` or `replaced`. Both lists are empty
        unless `on_bad` is set.

        Args:
            expected: Result of `Loader.expected` for the same epoch.

        Returns:
            `True` if epoch, count and checksum match.

        Raises:
            DataError: If the JSON of the receipt is invalid.
        """
        return _native.proves(self.json, expected.epoch, expected.samples, expected.identities)
