"""Make an LMDB of an ImageFolder, or pack one with a plain loop; print the seconds and CPU seconds of the latter.

    from_lmdb.py make SOURCE LMDB
    from_lmdb.py pack LMDB DESTINATION

The LMDB is as folder2lmdb writes it: `str(i)` to a pickle of (bytes, label), in one file. The loop reads keys in a shuffled
order and writes shards of 256 MiB with webdataset's ShardWriter; imports are not counted, an fsync of every file is.
"""

import os
import pickle
import random
import sys
import time
from pathlib import Path

import lmdb
import webdataset

SHARD_BYTES = 256 << 20


def make(source: Path, path: Path) -> None:
    """Writes the LMDB."""
    environment = lmdb.open(str(path), map_size=1 << 40, subdir=False)
    number = 0
    for label, folder in enumerate(sorted(entry for entry in source.iterdir() if entry.is_dir())):
        with environment.begin(write=True) as transaction:
            for file in sorted(folder.iterdir()):
                transaction.put(str(number).encode(), pickle.dumps((file.read_bytes(), label)))
                number += 1
    with environment.begin(write=True) as transaction:
        transaction.put(b"__len__", pickle.dumps(number))
    environment.close()


def pack(path: Path, destination: Path) -> None:
    """Reads every value and writes it to shards."""
    destination.mkdir()
    environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False, readahead=True)
    with environment.begin() as transaction:
        samples = pickle.loads(transaction.get(b"__len__"))
        order = list(range(samples))
        random.Random(0).shuffle(order)
        pattern = f"{destination}/shard-%06d.tar"
        with webdataset.ShardWriter(pattern, maxcount=samples, maxsize=SHARD_BYTES, verbose=0) as writer:
            for number, key in enumerate(order):
                image, label = pickle.loads(transaction.get(str(key).encode()))
                writer.write({"__key__": f"{number:08d}", "jpg": image, "cls": label})
    for file in [*destination.iterdir(), destination]:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


if __name__ == "__main__":
    action, first, second = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if action == "make":
        make(first, second)
    else:
        start, cpu = time.perf_counter(), time.process_time()
        pack(first, second)
        print(time.perf_counter() - start, time.process_time() - cpu)
