"""shardpack's own package, in a loop of Python. See meter.py."""

from meter import BATCH, WORKERS, measure, run
from shardpack import Loader


def read(folder: str) -> None:
    measure(Loader(folder, BATCH, transform="train", output="numpy", threads=WORKERS), ["shardpack", "numpy"])


run(read)
