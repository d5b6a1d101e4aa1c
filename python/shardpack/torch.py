"""For those who keep torch's DataLoader: its workers share the lanes of an epoch exactly.

    dataset = shardpack.torch.IterableDataset("packed/train", 64, transform="train")
    for images, labels in DataLoader(dataset, batch_size=None, num_workers=4):
        ...

`shardpack.Loader` needs no workers, and is faster: it has threads that Python's lock does not hold up.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from collections.abc import Iterator
from typing import Any

import torch.utils.data

from . import distributed
from .loader import Loader
from .running import PathLike

#: Most workers of a DataLoader.
_MOST_WORKERS = 4096


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """Batches of a `Loader` for a DataLoader with `batch_size=None`: each worker is a rank of its own, so that all of them together
    give every sample of an epoch once, and each the same number of batches.

    Each pass over the DataLoader is the next epoch, with and without `persistent_workers`.

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
        #: The epoch that each worker gives next: shared, since workers may live for one epoch.
        self._epochs = multiprocessing.RawArray(ctypes.c_uint64, _MOST_WORKERS)
        # What is wrong with them shows here, and not in a worker.
        self._loader(0, 1)

    def _loader(self, rank: int, world_size: int) -> Loader:
        path, batch_size = self._arguments
        return Loader(path, batch_size, rank=rank, world_size=world_size, **{"output": "torch", **self._options})

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

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rank, world_size, _ = self._found()
        loader = self._loader(rank * workers + number, world_size * workers)
        epoch = int(self._epochs[number])
        self._epochs[number] = epoch + 1
        loader.set_epoch(epoch)
        try:
            yield from loader
        finally:
            loader.close()
