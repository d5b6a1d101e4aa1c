"""Shared by the programs of this folder: the time of a loop, and pickles in an LMDB for PyTorch's DataLoader."""

import json
import pickle
import resource
import sys
import time


def measure(batches, samples_of) -> None:
    """Goes through all that `batches()` gives, and prints seconds and CPU seconds."""
    began, cpu = time.perf_counter(), cpu_seconds()
    samples = sum(samples_of(batch) for batch in batches())
    # Workers end with the iterator, and count only then.
    seconds = time.perf_counter() - began
    print(samples, "samples", file=sys.stderr)
    print(json.dumps(seconds), json.dumps(cpu_seconds() - cpu))


def cpu_seconds() -> float:
    """CPU time of this process and of those that it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pickles(path: str, made):
    """A dataset of torch: `made(value)` for each pickle in an LMDB with the keys 00000000, 00000001, …"""
    import lmdb
    from torch.utils.data import Dataset

    class Pickles(Dataset):
        def __init__(self) -> None:
            self.environment = None
            with self.open() as environment:
                self.samples = environment.stat()["entries"]

        def open(self):
            return lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False)

        def __len__(self) -> int:
            return self.samples

        def __getitem__(self, number: int):
            # Not to be taken through a fork.
            self.environment = self.environment or self.open()
            with self.environment.begin(buffers=True) as transaction:
                return made(pickle.loads(transaction.get(b"%08d" % number)))

    return Pickles()
