"""Functions of the caller's on samples, in threads."""

from __future__ import annotations

import io
import json
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._options import whole
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
        source: Of a mix, which of its datasets it is of.
    """

    __slots__ = ("_seed", "bytes", "epoch", "label", "number", "source")

    def __init__(self, bytes: memoryview, label: int, number: int, epoch: int, source: int = 0, seed: int = 0) -> None:
        self.bytes, self.label, self.number, self.epoch = bytes, label, number, epoch
        self.source, self._seed = source, seed

    def image(self, upright: bool = False) -> npt.NDArray[np.uint8]:
        """Its pixels, `[H, W, 3] uint8`, red, green, blue, decoded natively without Python's lock; turned as its Exif orientation says
        where `upright`."""
        return np.asarray(_native.decode(bytes(self.bytes), upright))

    def pil(self) -> Any:
        """As an image of Pillow in RGB, as torchvision's ImageFolder has it."""
        from PIL import Image

        return Image.open(io.BytesIO(self.bytes)).convert("RGB")

    def rng(self, seed: int = 0) -> np.random.Generator:
        """A generator of its own: the same for the same seed of the loader, `seed`, epoch and sample, whatever the number of threads."""
        return np.random.default_rng((self._seed, whole(seed, "seed"), self.epoch, self.source, self.number))

    def __repr__(self) -> str:
        return f"Item(number={self.number}, label={self.label}, epoch={self.epoch}, {len(self.bytes)} bytes)"


class Mapped:
    """Calls a function for each sample, some batches ahead, and stacks what comes out."""

    def __init__(self, function: Callable[[Item], Any], threads: int) -> None:
        self.function, self.threads = function, threads

    def begin(self, stream: _native.Stream, raw: Callable[[], tuple[_native.Batch, Any] | None]) -> Mapping:
        """Of the batches that `raw` gives, up to `None`."""
        return Mapping(self, stream, raw)


#: A batch whose samples are under way, with the receipt up to it; or why it is none.
_Pending = Union[tuple[_native.Batch, list["Future[Any]"], str], Exception]


class Mapping:
    """An epoch under way. An exception, of the function or of reading, is that of one batch: the next call goes on behind it."""

    def __init__(
        self, mapped: Mapped, stream: _native.Stream, raw: Callable[[], tuple[_native.Batch, Any] | None]
    ) -> None:
        self._function, self._stream, self._raw = mapped.function, stream, raw
        self._pool = ThreadPoolExecutor(mapped.threads, thread_name_prefix="shardpack-sample")
        self._pending: deque[_Pending] = deque()
        self._has_ended = False

    def __next__(self) -> tuple[_native.Batch, Any, str] | None:
        while len(self._pending) < _BATCHES and self._read():
            pass
        if not self._pending:
            return None
        first = self._pending.popleft()
        if isinstance(first, Exception):
            raise first
        native, futures, receipt = first
        return native, stacked([future.result() for future in futures]), receipt

    def _read(self) -> bool:
        """Begins the next batch, if there is one."""
        if self._has_ended:
            return False
        try:
            found = self._raw()
            if found is None:
                self._has_ended = True
                return False
            self._pending.append((found[0], self._begin(found[0]), self._stream.receipt()))
        except Exception as error:
            self._pending.append(error)
        return True

    def _begin(self, native: _native.Batch) -> list[Future[Any]]:
        assert native.encoded is not None, "a loader with a sample_transform asks for payloads"
        payloads = Encoded(native.encoded)
        labels, numbers, sources = (np.asarray(one) for one in (native.labels, native.numbers, native.sources))
        # That of the run, which a loader that goes on with another has not been told.
        seed = json.loads(native.state)["seed"]
        items = (
            Item(payload, int(label), int(number), native.epoch, int(source), seed)
            for payload, label, number, source in zip(payloads, labels, numbers, sources)
        )
        return [self._pool.submit(self._function, item) for item in items]

    def close(self) -> None:
        """Waits for what is under way, and begins no more."""
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)


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
