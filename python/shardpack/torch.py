"""Packed datasets for torch's `DataLoader`, whose workers share each epoch exactly.

`shardpack.Loader` is faster and needs no workers: its threads run without the GIL.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from collections.abc import Iterator
from typing import Any

# Each worker seeds this module: one import here is shared by all workers that are forked.
import numpy.random  # noqa: F401
import torch.utils.data

from . import distributed
from .errors import UsageError
from .loader import Loader
from .running import PathLike

#: Largest number of DataLoader workers.
_MOST_WORKERS = 4096


class _Divided(Loader):
    """Loader of one worker, whose rank is already divided."""

    _divides = False


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Batches of a `Loader` for a torch `DataLoader` with `batch_size=None`.

    Each worker acts as a rank: together they give every sample of an epoch once, and each gives the same number of
    batches.

    Each pass over the DataLoader is the next epoch, with or without `persistent_workers`. With torchdata's
    `StatefulDataLoader`, a run resumes mid-epoch without reading earlier samples, with the same number of workers.

    Args:
        path: Folder, URL or parts, as in `Loader`.
        batch_size: Samples per batch and worker.
        options: Other options of `Loader`. Defaults differ: `threads=1`, `read_threads=1` and `output="torch"`.

    Raises:
        UsageError: If an option is invalid; see `Loader`.

    Example:
        import shardpack.torch
        from torch.utils.data import DataLoader

        dataset = shardpack.torch.IterableDataset("packed", 16, transform="train")
        loader = DataLoader(dataset, batch_size=None, num_workers=2)
        print(sum(len(labels) for images, labels in loader))  # 300
    """

    def __init__(self, path: PathLike, batch_size: int = 64, **options: Any) -> None:
        super().__init__()
        self._arguments = path, batch_size
        self._options = {"threads": 1, "read_threads": 1, **options}
        self._ranks_wanted = tuple(self._options.pop(name, None) for name in ("rank", "world_size", "process_group"))
        self._ranks: distributed.Ranks | None = None
        #: Length by number of workers and epoch.
        self._lengths: dict[tuple[int, int], int] = {}
        #: Next epoch of each worker; shared, since workers may live for one epoch only.
        self._epochs = multiprocessing.RawArray(ctypes.c_uint64, _MOST_WORKERS)
        #: Epoch of each worker's pass, also until the next one begins.
        self._running = multiprocessing.RawArray(ctypes.c_uint64, _MOST_WORKERS)
        # Invalid options fail here, not in a worker.
        self._loader(0, 1)

    def _loader(self, rank: int, world_size: int) -> Loader:
        path, batch_size = self._arguments
        return _Divided(path, batch_size, rank=rank, world_size=world_size, **{"output": "torch", **self._options})

    def _found(self) -> distributed.Ranks:
        if self._ranks is None:
            self._ranks = distributed.find(*self._ranks_wanted)
        return self._ranks

    def __getstate__(self) -> dict[str, Any]:
        # Workers are in no process group: the process that is passes the rank on.
        self._found()
        return {**self.__dict__, "_ranks_wanted": (None, None, None)}

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass.

        Args:
            epoch: Number of the epoch, from 0.
        """
        for worker in range(_MOST_WORKERS):
            self._epochs[worker] = self._running[worker] = epoch

    def __len__(self) -> int:
        """Batches of this rank in an epoch, over all workers of the calling `DataLoader`, else one."""
        # Only the DataLoader knows its number of workers, and each may have a batch more than an even share.
        asking = sys._getframe(1).f_locals.get("self")
        workers = max(asking.num_workers, 1) if isinstance(asking, torch.utils.data.DataLoader) else 1
        # With `batch_tokens`, epochs differ.
        epoch = int(self._running[0]) if self._options.get("batch_tokens") else 0
        if (workers, epoch) not in self._lengths:
            rank, world_size, _ = self._found()
            loader = self._loader(rank * workers, world_size * workers)
            loader.set_epoch(epoch)
            self._lengths[workers, epoch] = workers * len(loader)
        return self._lengths[workers, epoch]

    def __iter__(self) -> Pass:
        """Return the pass of the current worker."""
        worker = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rank, world_size, _ = self._found()
        return Pass(self._loader(rank * workers + number, world_size * workers), self._epochs, self._running, number)


class Pass(Iterator[Any]):
    """Iterator over the batches of one worker in one epoch, with a state for `StatefulDataLoader`.

    Example:
        import shardpack.torch

        batches = iter(shardpack.torch.IterableDataset("packed", 16, transform="train"))
        print(batches.state_dict()["epoch"])  # 0
    """

    def __init__(self, loader: Loader, epochs: Any, running: Any, worker: int) -> None:
        self._loader, self._epochs, self._running, self._worker = loader, epochs, running, worker
        self._batches: Iterator[Any] | None = None
        self._epoch = int(epochs[worker])
        loader.set_epoch(self._epoch)

    def __next__(self) -> Any:
        if self._batches is None:
            self._epochs[self._worker], self._running[self._worker] = self._epoch + 1, self._epoch
            # The loaded state may be the end of this epoch.
            self._batches = iter(self._loader) if self._loader.epoch == self._epoch else iter(())
        try:
            return next(self._batches)
        except StopIteration:
            self._running[self._worker] = self._epoch + 1
            self._loader.close()
            raise

    def state_dict(self) -> dict[str, Any]:
        """Return `Loader.state_dict` with the epoch of this pass.

        Returns:
            A dict of plain values.
        """
        return {**self._loader.state_dict(), "epoch": self._epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state of a pass; an epoch that has ended yields nothing more.

        Args:
            state: Result of `state_dict`.

        Raises:
            UsageError: If `state` is not from a pass, or from another dataset.
        """
        if "epoch" not in state:
            raise UsageError("no state of a worker: it lacks 'epoch'", help="the state of a Loader is for a Loader")
        self._batches = None
        self._loader.load_state_dict(state)
        self._epoch = state["epoch"]
        self._epochs[self._worker] = self._epoch + 1
