"""Detection of the rank of this process, done when the rank is first needed."""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from ._options import whole
from .errors import UsageError


class Ranks(NamedTuple):
    """Rank of this process, number of ranks, and where both come from.

    Attributes:
        rank: Rank of this process, from 0.
        world_size: Number of ranks.
        source: Origin of the numbers in words, such as `arguments`, `torch.distributed`, `Slurm` or `one process`.

    Example:
        loader = shardpack.Loader("packed", 16, rank=1, world_size=3)
        print(loader.ranks)  # Ranks(rank=1, world_size=3, source='arguments')
    """

    rank: int
    world_size: int
    source: str

    def of(self, worker: Worker) -> Ranks:
        """Divide this rank among the workers of a `DataLoader`.

        Args:
            worker: One worker of this rank.

        Returns:
            Rank of the worker, with every worker of every rank counted as a rank.
        """
        rank, size = self.rank * worker.workers + worker.number, self.world_size * worker.workers
        return Ranks(rank, size, f"{self.source}, and worker {worker.number} of {worker.workers}")


#: Variables of launchers: rank, number of ranks, launcher. For Slurm, those of a step: a batch script, one process, has the others too.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "RANK and WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
    ("PMI_RANK", "PMI_SIZE", "PMI"),
)


def find(rank: int | None = None, world_size: int | None = None, process_group: Any = None) -> Ranks:
    """Detect the rank of this process.

    Sources, in order: the arguments; the process group; `torch.distributed`, if initialised; the variables of torchrun
    (`RANK`, `WORLD_SIZE`), a Slurm step, Open MPI or PMI; JAX with several processes. Otherwise there is one rank.

    Args:
        rank: Rank from 0, together with `world_size`; `None` to detect it.
        world_size: Number of ranks.
        process_group: Group of `torch.distributed`.

    Returns:
        Rank, number of ranks, and source.

    Raises:
        UsageError: If only one of `rank` and `world_size` is given, or a number is invalid. Also if `process_group` is
            given and torch is not imported.

    Example:
        print(shardpack.distributed.find(0, 2))  # Ranks(rank=0, world_size=2, source='arguments')
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
        # A public call of JAX would start its backend.
        client: Any = getattr(getattr(getattr(jax, "_src", None), "distributed", None), "global_state", None)
        size = getattr(client, "num_processes", None)
        if size and size > 1:
            return _checked(client.process_id, size, "JAX")
    return Ranks(0, 1, "one process")


class Worker(NamedTuple):
    """Position of this process among the workers of a torch `DataLoader`.

    Attributes:
        number: Number of the worker, from 0.
        workers: Number of workers.

    Example:
        worker = shardpack.distributed.Worker(number=1, workers=4)
        print(shardpack.distributed.find(0, 2).of(worker).rank)  # 1
    """

    number: int
    workers: int


def worker() -> Worker | None:
    """Detect whether this process is a worker of a torch `DataLoader`, if torch is imported.

    Returns:
        Its position, or `None` if the process is no worker or the only one.

    Example:
        print(shardpack.distributed.worker())  # None
    """
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return None if info is None or info.num_workers < 2 else Worker(info.id, info.num_workers)


def _checked(rank: int, world_size: int, source: str) -> Ranks:
    if not 0 <= rank < world_size:
        raise UsageError(f"rank {rank} of {world_size}, from {source}: ranks are 0 to world_size - 1")
    return Ranks(rank, world_size, source)
