"""Which rank this process is, found out when it is needed and not before."""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from ._options import whole
from .errors import UsageError


class Ranks(NamedTuple):
    """Which of how many, and who says so."""

    rank: int
    world_size: int
    source: str

    def of(self, worker: Worker) -> Ranks:
        """What one worker of this rank is, where all workers of all ranks are ranks."""
        rank, size = self.rank * worker.workers + worker.number, self.world_size * worker.workers
        return Ranks(rank, size, f"{self.source}, and worker {worker.number} of {worker.workers}")


#: Variables of launchers: rank, number of ranks, launcher. Of Slurm those of a step: a batch script has the others too, and is one process.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "RANK and WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
    ("PMI_RANK", "PMI_SIZE", "PMI"),
)


def find(rank: int | None = None, world_size: int | None = None, process_group: Any = None) -> Ranks:
    """Which rank this process is.

    Args:
        rank: From 0, if the caller knows; then `world_size` has to be there too.
        world_size: Number of ranks.
        process_group: One of `torch.distributed`.

    Returns:
        The first of: the arguments; the process group; `torch.distributed` where it is initialised; the variables of torchrun, Slurm,
        Open MPI and PMI; JAX where it runs on several processes; one rank alone.

    Raises:
        UsageError: When only one of `rank` and `world_size` is given, or they do not fit together.
    """
    if (rank is None) != (world_size is None):
        raise UsageError("rank and world_size come together")
    if rank is not None and world_size is not None:
        return _checked(whole(rank, "rank"), whole(world_size, "world_size", 1), "arguments")
    torch = sys.modules.get("torch")
    spread = getattr(torch, "distributed", None)
    if process_group is not None:
        if spread is None:
            raise UsageError("process_group is for torch.distributed, and torch is not imported")
        return _checked(spread.get_rank(process_group), spread.get_world_size(process_group), "process group")
    if spread is not None and spread.is_available() and spread.is_initialized():
        return _checked(spread.get_rank(), spread.get_world_size(), "torch.distributed")
    for rank_name, size_name, source in _LAUNCHERS:
        texts = os.environ.get(rank_name), os.environ.get(size_name)
        if texts[0] is not None and texts[1] is not None:
            if not (texts[0].isdecimal() and texts[1].isdecimal()):
                raise UsageError(f"{rank_name}={texts[0]!r} and {size_name}={texts[1]!r} are no rank of some")
            return _checked(int(texts[0]), int(texts[1]), source)
    jax = sys.modules.get("jax")
    if jax is not None:
        # Asking JAX itself would start its backend, which a loader has no business with.
        client: Any = getattr(getattr(getattr(jax, "_src", None), "distributed", None), "global_state", None)
        size = getattr(client, "num_processes", None)
        if size and size > 1:
            return _checked(client.process_id, size, "JAX")
    return Ranks(0, 1, "one process")


class Worker(NamedTuple):
    """Which worker of a DataLoader of torch this process is, and of how many."""

    number: int
    workers: int


def worker() -> Worker | None:
    """Which worker of a DataLoader this is; `None` in a process that is none, or the only one. torch is asked where it is
    imported, as it is in all workers."""
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return None if info is None or info.num_workers < 2 else Worker(info.id, info.num_workers)


def _checked(rank: int, world_size: int, source: str) -> Ranks:
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} of {world_size}, from {source}: ranks are 0 to world_size - 1")
    return Ranks(rank, world_size, source)
