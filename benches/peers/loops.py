"""An epoch in a loop of Python, without decoding: payloads as they are, or arrays in batches. Prints the seconds and CPU seconds of the loop.

    loops.py payloads DATASET RANKS EPOCHS
                                       payloads that shardpack packed, 64 a batch, by so many processes
    loops.py images DATASET RANKS      random crops of 224 of them, by two threads in all
    loops.py first DATASET             the first batch, and the first in mid-epoch, in place of the seconds
    loops.py arrays DATASET            arrays that shardpack packed, 1,024 a batch
    loops.py make SAMPLES LMDB         pickles of {"x": float32[64], "label": int}, in one file
    loops.py lmdb LMDB                 these, by PyTorch's DataLoader with two workers
    loops.py mds LMDB DESTINATION      writes them with MosaicML's MDSWriter
    loops.py streaming SHARDS          reads that by StreamingDataset and a DataLoader with two workers

Imports are not counted; opening is. Those that read arrays go through batches of 1,024 and look at the shape of each; those that read
payloads take each out of its batch.
"""

import json
import multiprocessing
import pickle
import sys
import time

from common import measure, pickles

BATCH, WORKERS = 1024, 2


def arrays_loop(path: str) -> None:
    from shardpack import Loader

    measure(lambda: Loader(path, BATCH, output="numpy", epochs=1), lambda batch: batch["x.npy"].shape[0])


def payloads_loop(path: str, rank: int, world_size: int, epochs: int):
    from shardpack import Loader

    def loop() -> None:
        loader = Loader(path, 64, epochs=epochs, rank=rank, world_size=world_size)
        for _ in range(epochs):
            for encoded, _ in loader:
                for payload in encoded:
                    len(payload)

    return loop


def images_loop(path: str, rank: int, world_size: int):
    from shardpack import Loader

    def loop() -> None:
        threads = max(WORKERS // world_size, 1)
        options = {"epochs": 1, "threads": threads, "rank": rank, "world_size": world_size}
        for images, _ in Loader(path, 64, transform="train", output="numpy", **options):
            images.shape  # noqa: B018

    return loop


def ranks(loop_of, path: str, world_size: int, *words: int) -> None:
    """Runs a loop in so many processes at once; what counts begins when all have imported what they need."""
    context = multiprocessing.get_context("fork")
    ready, spent = context.Barrier(world_size + 1), context.Array("d", world_size)

    def run(rank: int) -> None:
        loop = loop_of(path, rank, world_size, *words)
        ready.wait()
        before = time.process_time()
        loop()
        spent[rank] = time.process_time() - before

    processes = [context.Process(target=run, args=(rank,)) for rank in range(world_size)]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    for process in processes:
        process.join()
    seconds = time.perf_counter() - began
    if any(process.exitcode for process in processes):
        sys.exit("a rank has failed")
    print(json.dumps(seconds), json.dumps(sum(spent)))


def first(path: str) -> None:
    """Prints the seconds to the first batch of an epoch, and to that of one that goes on in its midst."""
    from shardpack import Dataset, Loader

    def seconds(state=None) -> tuple[float, dict]:
        began = time.perf_counter()
        loader = Loader(path, 64, output="numpy", seed=3)
        if state is not None:
            loader.load_state_dict(state)
        assert len(next(iter(loader)).samples) == 64
        return time.perf_counter() - began, loader.state_dict()

    from_start, state = seconds()
    state["shardpack"]["position"] = len(Dataset(path)) // 2 // 64 * 64
    print(json.dumps(from_start), json.dumps(seconds(state)[0]))


def make(samples: str, path: str) -> None:
    import lmdb
    import numpy

    numbers = numpy.random.default_rng(0)
    environment = lmdb.open(path, map_size=1 << 40, subdir=False)
    with environment.begin(write=True) as transaction:
        for number in range(int(samples)):
            value = {"x": numbers.standard_normal(64).astype(numpy.float32), "label": number % 1000}
            transaction.put(b"%08d" % number, pickle.dumps(value), append=True)
    environment.close()


def by_dataloader(path: str) -> None:
    import torch
    from torch.utils.data import DataLoader

    rows = pickles(path, lambda value: (torch.from_numpy(value["x"]), value["label"]))
    loader = lambda: DataLoader(rows, batch_size=BATCH, shuffle=True, num_workers=WORKERS)  # noqa: E731
    measure(loader, lambda batch: batch[0].shape[0])


def write_mds(source: str, destination: str) -> None:
    import lmdb
    from streaming import MDSWriter

    columns = {"x": "ndarray:float32:64", "label": "int"}
    environment = lmdb.open(source, subdir=False, readonly=True, lock=False)
    with environment.begin() as transaction, MDSWriter(out=destination, columns=columns, size_limit=64 << 20) as writer:
        for _, value in transaction.cursor():
            writer.write(pickle.loads(value))


def by_streaming(path: str) -> None:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    class Rows(StreamingDataset):
        def __getitem__(self, number):
            row = super().__getitem__(number)
            return row["x"], row["label"]

    def loader():
        return DataLoader(Rows(local=path, shuffle=True, batch_size=BATCH), batch_size=BATCH, num_workers=WORKERS)

    measure(loader, lambda batch: batch[0].shape[0])


match sys.argv[1:]:
    case ["payloads", path, world_size, epochs]:
        ranks(payloads_loop, path, int(world_size), int(epochs))
    case ["images", path, world_size]:
        ranks(images_loop, path, int(world_size))
    case ["arrays", path]:
        arrays_loop(path)
    case ["first", path]:
        first(path)
    case ["make", samples, path]:
        make(samples, path)
    case ["lmdb", path]:
        by_dataloader(path)
    case ["mds", source, destination]:
        write_mds(source, destination)
    case ["streaming", path]:
        by_streaming(path)
    case _:
        sys.exit(__doc__)
