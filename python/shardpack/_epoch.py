"""One epoch of a loader, as an iterator that continues after an error.

A generator would end with its first exception, which would look like the end of the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import UsageError

if TYPE_CHECKING:
    from ._mapped import Mapping
    from .loader import Loader


class _Raw:
    """Native batches, then `None`; keeps no reference to the iterator, so that an unused one is freed."""

    def __init__(self, loader: Loader, stream: _native.Stream) -> None:
        self._loader, self._stream = loader, stream

    def __call__(self) -> tuple[_native.Batch, Any] | None:
        """Return the next batch, with torch's memory for its images."""
        loader = self._loader
        if loader._stream is not self._stream:
            raise UsageError(
                "the loader has gone on to another epoch",
                help="a loader has one iterator at a time; two loaders have two",
            )
        memory = loader._pinned(loader._engine()) if loader._pin_memory else None
        batch = self._stream.next(memory)
        if batch is None:
            return None
        found = None
        if memory is not None and batch.address is not None:
            found = loader._lent.pop(batch.address)
            loader._lent[memory.data_ptr()] = memory
        return batch, found


class Epoch(Iterator[Any]):
    """The batches of an epoch, or the rest of one; reading starts with the first call."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._stream: _native.Stream | None = None
        self._raw: _Raw | None = None
        self._mapping: Mapping | None = None
        self._has_ended = False
        self._bar = _bar(loader) if loader._progress else None

    def __next__(self) -> Any:
        if self._has_ended:
            raise StopIteration
        loader = self._loader
        if self._raw is None:
            self._stream = loader._begin_epoch()
            self._raw = _Raw(loader, self._stream)
            if loader._mapped is not None:
                self._mapping = loader._mapped.begin(loader, self._stream, self._raw)
        if loader._batch_transform is not None:
            # The receipt that belongs to the state, until the function has returned.
            loader._receipt = loader._own_receipt()
        made = self._made(self._raw)
        if made is None:
            self._end()
            raise StopIteration
        native, content, receipt = made
        batch = loader._batch(native, content)
        loader._state, loader._receipt = native.state, receipt
        if self._bar is not None:
            _show(self._bar, loader)
        return batch

    def _made(self, raw: _Raw) -> tuple[_native.Batch, Any, str | None] | None:
        """The next batch, its content, and its receipt if later batches have been read."""
        if self._mapping is not None:
            return next(self._mapping)
        found = raw()
        return None if found is None else (found[0], self._loader._content(*found), None)

    def _end(self) -> None:
        self._has_ended = True
        loader = self._loader
        if self._stream is not None and loader._stream is self._stream:
            loader._state, loader._receipt = self._stream.state(), None
            loader._is_under_way = False
        self._close()

    def _close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
        if self._bar is not None:
            self._bar.close()

    def __del__(self) -> None:
        # If `__init__` failed, there is no bar.
        if "_bar" in self.__dict__:
            self._close()


def _show(bar: Any, loader: Loader) -> None:
    """Advance the bar, with rate, wait and bound when it is drawn."""
    if bar.update(1):
        stats = loader.stats()
        waits = 100 * stats["consumer_wait_ms"] / max(stats["elapsed_ms"], 1e-3)
        shown = f"{stats['samples_per_s']:.0f} samples/s, wait {waits:.0f} %, {stats['bottleneck']}"
        bar.set_postfix_str(shown, refresh=False)


def _bar(loader: Loader) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise UsageError("progress=True needs tqdm", help="pip install tqdm") from None
    return tqdm(total=loader.batches_left, desc=f"epoch {loader.epoch}", unit="batch")
