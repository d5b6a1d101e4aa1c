"""shardpack's own package, in a loop of Python. See meter.py."""

import shardpack
from meter import BATCH, WORKERS, measure, run


def read(folder: str) -> None:
    measure(shardpack.Loader(folder, BATCH, transform="train", output="numpy", threads=WORKERS), ["shardpack", "numpy"])


run(read)
