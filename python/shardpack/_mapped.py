"""Calls the caller's function on samples, in threads."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _native
from ._options import whole
from ._payload import Payload
from .batch import NO_LABEL, Encoded, class_name

if TYPE_CHECKING:
    from .loader import Loader

#: Batches in flight.
_BATCHES = 3


class Item(Payload):
    """One sample, as `sample_transform`, `after` and `collate_fn` receive it.

    Attributes:
        bytes: Payload as stored, a read-only `memoryview`; empty with a native transform.
        crop: With a native transform, the image that it made, a view of the batch; a list of these for several views. Else
            `None`.
        label: Label of the class, or `None`.
        class_name: Name of the class, or `None`.
        number: Number of the sample in its dataset, from 0.
        epoch: Number of the epoch, from 0.
        source: Number of the dataset in a mix, from 0.
        components: Values of the option `components` of the loader, by name.
        key: Key of the sample.
        path: Path in the source, as in `Sample`.
        size: Width and height in pixels from the image header; `(0, 0)` if unknown.
        kind: Type of the payload, as in `Sample`.

    Example:
        def thumbnail(item):
            top, left = item.rng().integers(0, 16, 2)
            return item.image()[top : top + 64, left : left + 64].copy()

        loader = shardpack.Loader("packed", 32, sample_transform=thumbnail)
        print(tuple(next(iter(loader))[0].shape))  # (32, 64, 64, 3)
    """

    __slots__ = ("_found", "_loader", "_seed", "bytes", "components", "crop", "epoch", "label", "number", "source")

    def __init__(
        self,
        bytes: memoryview,
        label: int,
        number: int,
        epoch: int,
        source: int = 0,
        seed: int = 0,
        components: dict[str, Any] | None = None,
        loader: Loader | None = None,
        crop: Any = None,
    ) -> None:
        self.bytes, self.number, self.epoch = bytes, number, epoch
        self.label = None if label == NO_LABEL else label
        self.source, self._seed, self.components, self._loader = source, seed, components or {}, loader
        self.crop = crop
        self._found: tuple[str, str, tuple[int, int], str] | None = None

    @property
    def class_name(self) -> str | None:
        if self._loader is None or self.label is None:
            return None
        return class_name(self._loader._classes, self.label)

    @property
    def _row(self) -> tuple[str, str, tuple[int, int], str]:
        """Facts of the index, which most functions do not need."""
        if self._found is None:
            assert self._loader is not None, "items of a loader have one"
            self._found = self._loader._engine().row(self.source, self.number)
        return self._found

    @property
    def key(self) -> str:
        return self._row[0]

    @property
    def path(self) -> str:
        return self._row[1]

    @property
    def size(self) -> tuple[int, int]:
        return self._row[2]

    @property
    def kind(self) -> str:
        return self._row[3]

    def rng(self, seed: int = 0) -> np.random.Generator:
        """Return a random generator for this sample.

        Args:
            seed: Distinguishes several generators for one sample.

        Returns:
            A generator that depends only on the loader's seed, `seed`, epoch and sample, regardless of threads and
            ranks.
        """
        return np.random.default_rng((self._seed, whole(seed, "seed"), self.epoch, self.source, self.number))

    def __repr__(self) -> str:
        return f"Item(number={self.number}, label={self.label}, epoch={self.epoch}, {len(self.bytes)} bytes)"


class Mapped:
    """A function for samples, with the number of threads that call it, and a function for the list of its results."""

    def __init__(
        self, function: Callable[[Item], Any] | None, threads: int, collate: Callable[[list[Any]], Any] | None
    ) -> None:
        self.function, self.threads = function or _itself, threads
        self.collate = collate or stacked
        #: Time that the consumer waited for the functions, in milliseconds.
        self.wait_ms = 0.0

    def begin(
        self, loader: Loader, stream: _native.Stream, raw: Callable[[], tuple[_native.Batch, Any] | None]
    ) -> Mapping:
        """Start an epoch of `loader` on the batches that `raw` returns, up to `None`."""
        return Mapping(self, loader, stream, raw)


def _itself(item: Item) -> Item:
    return item


#: A batch in flight with the receipt up to it, or the exception in its place.
_Pending = Union[tuple[_native.Batch, list["Future[Any]"], str], Exception]


class Mapping:
    """A running epoch, some batches ahead.

    An exception belongs to one batch: the next call continues with the following one.
    """

    def __init__(
        self,
        mapped: Mapped,
        loader: Loader,
        stream: _native.Stream,
        raw: Callable[[], tuple[_native.Batch, Any] | None],
    ) -> None:
        self._loader, self._mapped = loader, mapped
        self._function, self._collate, self._stream, self._raw = mapped.function, mapped.collate, stream, raw
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
        began = time.monotonic()
        made = self._collate([future.result() for future in futures])
        self._mapped.wait_ms += 1e3 * (time.monotonic() - began)
        return native, made, receipt

    def _read(self) -> bool:
        """Start the next batch; `False` at the end of the epoch."""
        if self._has_ended:
            return False
        try:
            found = self._raw()
            if found is None:
                self._has_ended = True
                return False
            self._pending.append((found[0], self._begin(*found), self._stream.receipt()))
        except Exception as error:
            self._pending.append(error)
        return True

    def _begin(self, native: _native.Batch, memory: Any) -> list[Future[Any]]:
        payloads: Iterable[memoryview] = repeat(memoryview(b""))
        crops: Iterable[Any] = repeat(None)
        outputs = self._loader._outputs
        if native.encoded is not None and not outputs.pipelines:
            payloads = Encoded(native.encoded)
        else:
            made = self._loader._content(native, memory)
            crops = zip(*made) if outputs.has_views else made
        labels, numbers, sources = (np.asarray(one) for one in (native.labels, native.numbers, native.sources))
        # The seed of the run: after `load_state_dict`, it may differ from the loader's option.
        seed = json.loads(native.state)["seed"]
        roles = self._loader._roles
        columns = outputs.columns(native.columns, roles)
        items = (
            Item(
                payload,
                int(label),
                int(number),
                native.epoch,
                int(source),
                seed,
                {name: outputs.of_sample(column, name, at, roles) for name, column in columns.items()},
                self._loader,
                list(crop) if isinstance(crop, tuple) else crop,
            )
            for at, (payload, crop, label, number, source) in enumerate(zip(payloads, crops, labels, numbers, sources))
        )
        return [self._pool.submit(self._function, item) for item in items]

    def close(self) -> None:
        """Wait for running calls, and start no more."""
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)


def stacked(values: list[Any]) -> Any:
    """Stack arrays or tensors of one shape, in tuples and dicts too; other values stay a list."""
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
