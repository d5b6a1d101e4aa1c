"""What was seen of an epoch, as proof."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _native


@dataclass(frozen=True)
class Expected:
    """What the receipts of all ranks add up to after an epoch, if each sample was seen once.

    Attributes:
        samples: Number of samples.
        identities: Sum of their identities modulo 2^128, as 32 hexadecimal digits.
        epoch: The epoch.
    """

    samples: int
    identities: str
    epoch: int


@dataclass(frozen=True)
class Receipt:
    """What one rank was handed out of an epoch, or several after `+` or `join`.

    Attributes:
        json: As one line: to be kept, and to be read by `Receipt(line)`.
    """

    json: str

    def _read(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.json)
        return told

    @property
    def epoch(self) -> int:
        """The epoch."""
        return int(self._read()["epoch"])

    @property
    def samples(self) -> int:
        """Number of samples that were handed out, each once, or another in their place; those that were skipped are not among them."""
        told = self._read()
        return int(told["samples"]) - len(told["skipped"])

    @property
    def repeated(self) -> int:
        """Samples that came once more so that ranks have equally many; they are not among `samples`."""
        return int(self._read()["repeated"])

    @property
    def skipped(self) -> list[dict[str, Any]]:
        """Samples that are not right and were left out: number and reason of each."""
        return list(self._read()["skipped"])

    @property
    def replaced(self) -> list[dict[str, Any]]:
        """Samples that are not right and that another stands for: number, reason, and the number of the other."""
        return list(self._read()["replaced"])

    def __add__(self, other: Receipt) -> Receipt:
        if not isinstance(other, Receipt):
            return NotImplemented
        return Receipt(_native.join([self.json, other.json]))

    @staticmethod
    def join(receipts: Iterable[Receipt]) -> Receipt:
        """All of them as one.

        Raises:
            UsageError: When they are of several datasets or epochs.
        """
        return Receipt(_native.join([receipt.json for receipt in receipts]))

    def proves(self, expected: Expected) -> bool:
        """Whether just the samples that are expected of this epoch are accounted for, each once: handed out, or named in `skipped` or
        `replaced`, which are empty unless `on_bad` says so."""
        return _native.proves(self.json, expected.epoch, expected.samples, expected.identities)
