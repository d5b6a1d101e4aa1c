"""For those who keep torch's DataLoader: its workers share the lanes of an epoch exactly.

    dataset = shardpack.torch.IterableDataset("packed/train", 64, transform="train")
    for images, labels in DataLoader(dataset, batch_size=None, num_workers=4):
        ...

`shardpack.Loader` needs no workers, and is faster: it has threads that Python's lock does not hold up.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from collections.abc import Iterator
from typing import Any

import torch.utils.data

from . import distributed
from .errors import UsageError
from .loader import Loader
from .running import PathLike

#: Most workers of a DataLoader.
_MOST_WORKERS = 4096


class _Divided(Loader):
    """Of one worker, whose rank has been divided."""

    _divides = False


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Batches of a `Loader` for a DataLoader with `batch_size=None`: each worker is a rank of its own, so that all of them together
    give every sample of an epoch once, and each the same number of batches.

    Each pass over the DataLoader is the next epoch, with and without `persistent_workers`. Its iterators have `state_dict` and
    `load_state_dict`, so that torchdata's `StatefulDataLoader` goes on in mid-epoch in the time of opening, with the same number of workers.

    Args:
        path: As of `Loader`.
        batch_size: Samples of a batch.
        options: All others of `Loader`.
    """

    def __init__(self, path: PathLike, batch_size: int = 64, **options: Any) -> None:
        super().__init__()
        self._arguments = path, batch_size
        self._options = {"threads": 1, "read_threads": 1, **options}
        self._ranks_wanted = tuple(self._options.pop(name, None) for name in ("rank", "world_size", "process_group"))
        self._ranks: distributed.Ranks | None = None
        #: Of so many workers.
        self._lengths: dict[int, int] = {}
        #: The epoch that each worker gives next: shared, since workers may live for one epoch.
        self._epochs = multiprocessing.RawArray(ctypes.c_uint64, _MOST_WORKERS)
        # What is wrong with them shows here, and not in a worker.
        self._loader(0, 1)

    def _loader(self, rank: int, world_size: int) -> Loader:
        path, batch_size = self._arguments
        return _Divided(path, batch_size, rank=rank, world_size=world_size, **{"output": "torch", **self._options})

    def _found(self) -> distributed.Ranks:
        if self._ranks is None:
            self._ranks = distributed.find(*self._ranks_wanted)
        return self._ranks

    def __getstate__(self) -> dict[str, Any]:
        # The process that has the group tells its workers, who are in none.
        self._found()
        return {**self.__dict__, "_ranks_wanted": (None, None, None)}

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the one that the next pass gives."""
        for worker in range(_MOST_WORKERS):
            self._epochs[worker] = epoch

    def __len__(self) -> int:
        """Batches of an epoch of this rank, of all workers together: those of the DataLoader that asks, or of one."""
        # There alone it is known how many workers there are, and each may have a batch more than a share of those of one.
        asking = sys._getframe(1).f_locals.get("self")
        workers = max(asking.num_workers, 1) if isinstance(asking, torch.utils.data.DataLoader) else 1
        if workers not in self._lengths:
            rank, world_size, _ = self._found()
            self._lengths[workers] = workers * len(self._loader(rank * workers, world_size * workers))
        return self._lengths[workers]

    def __iter__(self) -> Pass:
        worker = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rank, world_size, _ = self._found()
        return Pass(self._loader(rank * workers + number, world_size * workers), self._epochs, number)


class Pass(Iterator[Any]):
    """What one worker gives of an epoch. The state of a `StatefulDataLoader` has that of each worker's."""

    def __init__(self, loader: Loader, epochs: Any, worker: int) -> None:
        self._loader, self._epochs, self._worker = loader, epochs, worker
        self._batches: Iterator[Any] | None = None
        self._epoch = int(epochs[worker])
        loader.set_epoch(self._epoch)

    def __next__(self) -> Any:
        if self._batches is None:
            self._epochs[self._worker] = self._epoch + 1
            # The state that was loaded may be that of its end.
            self._batches = iter(self._loader) if self._loader.epoch == self._epoch else iter(())
        try:
            return next(self._batches)
        except StopIteration:
            self._loader.close()
            raise

    def state_dict(self) -> dict[str, Any]:
        """As `Loader.state_dict`, and the epoch of this pass: a worker may have ended it while others have not."""
        return {**self._loader.state_dict(), "epoch": self._epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """As `Loader.load_state_dict`, but nothing is left of an epoch that has ended: the next one is of another pass."""
        if "epoch" not in state:
            raise UsageError("no state of a worker: it lacks 'epoch'", help="the state of a Loader is for a Loader")
        self._batches = None
        self._loader.load_state_dict(state)
        self._epoch = state["epoch"]
        self._epochs[self._worker] = self._epoch + 1
