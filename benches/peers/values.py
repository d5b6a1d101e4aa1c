"""Make an LMDB of pickled dicts, or write its values to shards with a plain loop; print the seconds and CPU seconds of the latter.

    values.py make SAMPLES LMDB
    values.py webdataset LMDB DESTINATION
    values.py mds LMDB DESTINATION [PACKAGES]

The values are `pickle.dumps({"x": float32[40], "a": float, "b": int})`, in one file. The loops read them in the order of keys and
write shards of 256 MiB with webdataset's ShardWriter or MosaicML's MDSWriter; imports are not counted, an fsync of every file is.
PACKAGES is a folder where lmdb is, if the interpreter has none.
"""

import os
import pickle
import sys
import time
from pathlib import Path

SHARD_BYTES = 256 << 20


def make(samples: int, path: Path) -> None:
    """Writes the LMDB."""
    import numpy

    numbers = numpy.random.default_rng(0)
    environment = lmdb.open(str(path), map_size=1 << 40, subdir=False)
    with environment.begin(write=True) as transaction:
        for number in range(samples):
            x = numbers.standard_normal(40).astype(numpy.float32)
            value = {"x": x, "a": float(numbers.standard_normal()), "b": number}
            transaction.put(f"{number:08d}".encode(), pickle.dumps(value), append=True)
    environment.close()


def values(path: Path):
    """Keys and values."""
    environment = lmdb.open(str(path), subdir=False, readonly=True, lock=False)
    with environment.begin() as transaction:
        for key, value in transaction.cursor():
            yield key.decode(), pickle.loads(value)


def by_webdataset(path: Path, destination: Path) -> None:
    """Writes tar files."""
    destination.mkdir()
    pattern = f"{destination}/shard-%06d.tar"
    with webdataset.ShardWriter(pattern, maxcount=1 << 40, maxsize=SHARD_BYTES, verbose=0) as writer:
        for key, value in values(path):
            writer.write({"__key__": key, "x.npy": value["x"], "a.json": value["a"], "b.json": value["b"]})


def by_mds(path: Path, destination: Path) -> None:
    """Writes MDS."""
    columns = {"x": "ndarray:float32:40", "a": "float64", "b": "int"}
    with MDSWriter(out=str(destination), columns=columns, size_limit=SHARD_BYTES) as writer:
        for _, value in values(path):
            writer.write(value)


def measured(write, path: Path, destination: Path) -> None:
    """Writes, and prints how long it took."""
    start, cpu = time.perf_counter(), time.process_time()
    write(path, destination)
    for file in [*destination.iterdir(), destination]:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    print(time.perf_counter() - start, time.process_time() - cpu)


if __name__ == "__main__":
    action, first, second = sys.argv[1:4]
    # Behind its own packages, which may be of other versions.
    sys.path += sys.argv[4:]
    import lmdb

    match action:
        case "make":
            make(int(first), Path(second))
        case "webdataset":
            import webdataset

            measured(by_webdataset, Path(first), Path(second))
        case "mds":
            from streaming import MDSWriter

            measured(by_mds, Path(first), Path(second))
