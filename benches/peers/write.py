"""Pack an ImageFolder with a writer of somebody else, and print the seconds and CPU seconds it took.

    write.py webdataset|mds SOURCE DESTINATION

Imports are not counted. What is: listing, shuffle, reading, writing, and an fsync of every file and folder, as shardpack
does it. Shards have 256 MiB; everything else is the writer's default, so no hashes.
"""

import os
import random
import sys
import time
from pathlib import Path

SHARD_BYTES = 256 << 20


def shuffled(source: Path) -> list[tuple[Path, int]]:
    """Paths and labels in an order that is the same in each run."""
    classes = sorted(entry.name for entry in os.scandir(source) if entry.is_dir())
    samples = []
    for label, name in enumerate(classes):
        folder = source / name
        samples += [(folder / file, label) for file in sorted(os.listdir(folder))]
    random.Random(0).shuffle(samples)
    return samples


def sync(folder: Path) -> None:
    """Until the disk has it all."""
    for parent, _, files in os.walk(folder):
        for name in [parent, *(os.path.join(parent, file) for file in files)]:
            number = os.open(name, os.O_RDONLY)
            os.fsync(number)
            os.close(number)


def main() -> None:
    how, source, destination = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if how == "webdataset":
        import webdataset
    else:
        from streaming import MDSWriter

    start, start_cpu = time.perf_counter(), time.process_time()
    samples = shuffled(source)
    if how == "webdataset":
        destination.mkdir()
        pattern = f"{destination}/shard-%06d.tar"
        with webdataset.ShardWriter(pattern, maxcount=len(samples), maxsize=SHARD_BYTES, verbose=0) as writer:
            for number, (path, label) in enumerate(samples):
                writer.write({"__key__": f"{number:08}", "jpg": path.read_bytes(), "cls": label})
    else:
        columns = {"image": "bytes", "label": "int"}
        with MDSWriter(out=str(destination), columns=columns, size_limit=SHARD_BYTES) as writer:
            for path, label in samples:
                writer.write({"image": path.read_bytes(), "label": label})
    sync(destination)
    print(time.perf_counter() - start, time.process_time() - start_cpu)


if __name__ == "__main__":
    main()
