"""Write rows of a Python loop to shards, and print the seconds and CPU seconds.

    rows.py shardpack|shardpack-mds|webdataset|mds small|photographs ROWS DESTINATION

Small rows are a label, a float and a short text; photographs are 110 KB of bytes that begin as a JPEG, and a label. Imports are not
counted, an fsync of every file is. shardpack also shuffles, hashes and writes an index.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

PHOTOGRAPH_BYTES = 110_000
SHARD_BYTES = 256 << 20


def rows(kind: str, count: int):
    photograph = b"\xff\xd8\xff" + os.urandom(PHOTOGRAPH_BYTES)
    for number in range(count):
        if kind == "small":
            yield {"label": number % 10, "score": number / 2, "text": f"row {number}"}
        else:
            yield {"image": photograph + b"%d" % number, "label": number % 10}


def by_shardpack(kind: str, count: int, destination: Path, format: str = "webdataset") -> None:
    with shardpack.Writer(destination, shard_size=SHARD_BYTES, format=format) as writer:
        for row in rows(kind, count):
            writer.write(row)


def by_webdataset(kind: str, count: int, destination: Path) -> None:
    destination.mkdir()
    pattern = f"{destination}/shard-%06d.tar"
    with webdataset.ShardWriter(pattern, maxcount=1 << 40, maxsize=SHARD_BYTES, verbose=0) as writer:
        for number, row in enumerate(rows(kind, count)):
            names = {"label": "cls", "score": "score.json", "text": "txt", "image": "jpg"}
            writer.write({"__key__": f"{number:08}", **{names[name]: value for name, value in row.items()}})


def by_mds(kind: str, count: int, destination: Path) -> None:
    columns = {"label": "int", "score": "float64", "text": "str"} if kind == "small" else {"image": "bytes", "label": "int"}
    with MDSWriter(out=str(destination), columns=columns, size_limit=SHARD_BYTES) as writer:
        for row in rows(kind, count):
            writer.write(row)


if __name__ == "__main__":
    tool, kind, count, destination = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    match tool:
        case "shardpack" | "shardpack-mds":
            import shardpack

            shardpack.Writer  # imported on first use
            write = partial(by_shardpack, format="mds") if tool == "shardpack-mds" else by_shardpack
        case "webdataset":
            import webdataset

            write = by_webdataset
        case "mds":
            from streaming import MDSWriter

            write = by_mds
    start, cpu = time.perf_counter(), time.process_time()
    write(kind, count, destination)
    for path in [*(path for path in destination.rglob("*") if path.is_file()), destination]:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    print(time.perf_counter() - start, time.process_time() - cpu)
