"""Functions of the caller's on samples, in threads."""

from __future__ import annotations

import io
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from .batch import Encoded

#: Batches whose samples are under way.
_BATCHES = 3


class Item:
    """A sample, as a function of the caller's gets it.

    Attributes:
        bytes: The payload as it is stored, for reading alone.
        label: Number of its class; `batch.NO_LABEL` for samples without.
        number: Its number in the dataset.
        epoch: The epoch.
    """

    __slots__ = ("bytes", "epoch", "label", "number")

    def __init__(self, bytes: memoryview, label: int, number: int, epoch: int) -> None:
        self.bytes, self.label, self.number, self.epoch = bytes, label, number, epoch

    def image(self, upright: bool = False) -> npt.NDArray[np.uint8]:
        """Its pixels, `[H, W, 3] uint8`, red, green, blue, decoded natively without Python's lock; turned as its Exif orientation says
        where `upright`."""
        return np.asarray(_native.decode(bytes(self.bytes), upright))

    def pil(self) -> Any:
        """As an image of Pillow in RGB, as torchvision's ImageFolder has it."""
        from PIL import Image

        return Image.open(io.BytesIO(self.bytes)).convert("RGB")

    def rng(self, seed: int = 0) -> np.random.Generator:
        """A generator of its own: the same for the same seed, epoch and sample, whatever the number of threads."""
        return np.random.default_rng((seed, self.epoch, self.number))


class Mapped:
    """Calls a function for each sample, some batches ahead, and stacks what comes out."""

    def __init__(self, function: Callable[[Item], Any], threads: int) -> None:
        self.function, self.threads = function, threads

    def __call__(
        self, stream: _native.Stream, raw: Iterator[tuple[_native.Batch, Any]]
    ) -> Generator[tuple[_native.Batch, Any, str], None, None]:
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="shardpack-sample")
        pending: deque[tuple[_native.Batch, list[Future[Any]], str]] = deque()
        try:
            while True:
                while len(pending) < _BATCHES and (found := next(raw, None)) is not None:
                    pending.append((found[0], self._begin(pool, found[0]), stream.receipt()))
                if not pending:
                    return
                native, futures, receipt = pending.popleft()
                yield native, stacked([future.result() for future in futures]), receipt
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, pool: ThreadPoolExecutor, native: _native.Batch) -> list[Future[Any]]:
        assert native.encoded is not None, "a loader with a sample_transform asks for payloads"
        payloads = Encoded(native.encoded)
        labels, numbers = np.asarray(native.labels), np.asarray(native.numbers)
        items = (
            Item(payload, int(label), int(number), native.epoch)
            for payload, label, number in zip(payloads, labels, numbers)
        )
        return [pool.submit(self.function, item) for item in items]


def stacked(values: list[Any]) -> Any:
    """Arrays and tensors of one shape as one, parts of tuples and dicts each for itself; all else as a list."""
    if not values:
        return values
    first = values[0]
    if isinstance(first, np.ndarray) and all(
        isinstance(one, np.ndarray) and (one.shape, one.dtype) == (first.shape, first.dtype) for one in values
    ):
        return np.stack(values)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        alike = all(isinstance(one, torch.Tensor) and one.shape == first.shape for one in values)
        return torch.stack(values) if alike else values
    if isinstance(first, tuple) and all(isinstance(one, tuple) and len(one) == len(first) for one in values):
        return tuple(stacked(list(column)) for column in zip(*values))
    if isinstance(first, dict) and all(isinstance(one, dict) and one.keys() == first.keys() for one in values):
        return {name: stacked([one[name] for one in values]) for name in first}
    return values
