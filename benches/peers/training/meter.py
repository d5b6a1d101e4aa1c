"""How fast batches come, and what CPU time they take: for some seconds from the end of the first few on, or to the end of the epoch.

What all programs here share. Each is run as

    with_PEER.py write SOURCE DESTINATION    an ImageFolder to what the peer reads
    with_PEER.py read DATA                   random crops

with BATCH and WORKERS in the environment, or as below; where those that read the files themselves, or shards that shardpack writes, have no `write`. Of reading it prints one line of
JSON: images, seconds and cpu_seconds (of this process and all that it started), as measured;
first_seconds, from the end of the imports to the first batch; shape and dtype of a batch; and versions.

With STEP_SECONDS in the environment it is a training that is measured: after each batch the program sleeps so long, as one does that
waits for a GPU, and of 1,000 batches the line has waits: the seconds from asking for each to having it, the first from the
end of the imports on. With GROUP, the file cgroup.procs of a control group, the process enters that before it opens the data.
"""

import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

BATCH, SIDE, WORKERS = int(os.environ.get("BATCH", 64)), 224, int(os.environ.get("WORKERS", 2))
# Of a training that is only slept; None: as fast as batches come.
STEP_SECONDS = float(os.environ["STEP_SECONDS"]) if "STEP_SECONDS" in os.environ else None
# Batches of such a training.
STEPS = 1000
# When the imports ended.
imported = 0.0
# Batches that are not counted: processes start, caches and pools fill.
WARM_UP = 10
# How long is measured, if the epoch lasts.
SECONDS = 7.0


def cpu_seconds() -> float:
    """Of this process, of those that it waited for, and of those below it that run."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in own)
    parents, times = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # What is behind the name, which may have spaces and parentheses in it.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            process = int(folder.name)
            parents[process] = int(fields[1])
            # Own time in user space and in the kernel, and that of those it waited for.
            times[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    below = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in below} - below:
        below |= more
    return seconds + sum(times[process] for process in below - {os.getpid()})


def measure(batches: Iterable, distributions: list[str], dimensions=lambda batch: batch[0]) -> None:
    """Goes through `batches`; `dimensions` gives what of one has a shape and a dtype. Prints what it found."""
    if STEP_SECONDS is not None:
        return waits(batches, distributions)
    began = time.perf_counter()
    first = since = None
    images = number = 0
    for number, batch in enumerate(batches, 1):
        array = dimensions(batch)
        images += len(array)
        if number == 1:
            first = time.perf_counter()
            shape, dtype = list(array.shape), str(array.dtype)
        if number == WARM_UP:
            since, cpu, before = time.perf_counter(), cpu_seconds(), images
        if since and time.perf_counter() - since > SECONDS:
            break
    if since is None:
        sys.exit(f"{number} batches are too few: {WARM_UP} are not counted")
    seconds, cpu, counted = time.perf_counter() - since, cpu_seconds() - cpu, images - before
    assert sorted(shape) == sorted([BATCH, 3, SIDE, SIDE]), shape
    found = {
        "images": counted,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "first_seconds": first - began,
        "shape": shape,
        "dtype": dtype,
        "versions": {name: version(name) for name in distributions},
    }
    print(json.dumps(found))


def waits(batches: Iterable, distributions: list[str]) -> None:
    """Trains on `batches` in appearance, and prints how long each was waited for."""
    found, asked = [], imported
    for _ in batches:
        found.append(time.perf_counter() - asked)
        if len(found) == STEPS:
            break
        time.sleep(STEP_SECONDS)
        asked = time.perf_counter()
    else:
        sys.exit(f"{len(found)} batches are too few: {STEPS} are counted")
    print(json.dumps({"waits": found, "versions": {name: version(name) for name in distributions}}))


def listing(source: str) -> list[tuple[Path, int]]:
    """Paths and labels of an ImageFolder, shuffled, in an order that is the same in each run."""
    classes = sorted(entry.name for entry in os.scandir(source) if entry.is_dir())
    samples = []
    for label, name in enumerate(classes):
        folder = Path(source) / name
        samples += [(folder / file, label) for file in sorted(os.listdir(folder))]
    random.Random(0).shuffle(samples)
    return samples


def run(read, write=None) -> None:
    """Does what the words of the command line ask for."""
    global imported
    if group := os.environ.get("GROUP"):
        Path(group).write_text(str(os.getpid()))
    imported = time.perf_counter()
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3])
    else:
        read(sys.argv[2])
