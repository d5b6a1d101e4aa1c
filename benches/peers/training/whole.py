"""The reference of the benchmarks of training: libjpeg-turbo decodes whole JPEGs from memory, in WORKERS processes, by simplejpeg.

    whole.py FOLDER

Settings are those of Pillow: the accurate DCT, and smooth chroma. Prints a line of JSON as `meter.py` has it.
"""

import json
import multiprocessing
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import simplejpeg
from meter import SECONDS, WORKERS


def decode(files: list[Path], barrier: multiprocessing.Barrier, results: multiprocessing.Queue) -> None:
    images = [path.read_bytes() for path in files]
    sizes = [simplejpeg.decode_jpeg_header(image)[:2] for image in images]
    buffer = np.empty(max(height * width * 3 for height, width in sizes), np.uint8)
    barrier.wait(timeout=60)
    start, count = time.perf_counter(), 0
    before = resource.getrusage(resource.RUSAGE_SELF)
    while time.perf_counter() - start < SECONDS:
        image = images[count % len(images)]
        simplejpeg.decode_jpeg(image, "RGB", fastdct=False, fastupsample=False, buffer=buffer)
        count += 1
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    results.put((count, time.perf_counter() - start, cpu))


def main() -> None:
    files = sorted(path for path in Path(sys.argv[1]).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(WORKERS), context.Queue()
    parts = [context.Process(target=decode, args=(files[n::WORKERS], barrier, results)) for n in range(WORKERS)]
    for part in parts:
        part.start()
    # A process that failed has no result.
    found = [results.get(timeout=SECONDS + 120) for _ in parts]
    for part in parts:
        part.join()
    line = {
        "images": sum(count for count, _, _ in found),
        "seconds": sum(seconds for _, seconds, _ in found) / WORKERS,
        "cpu_seconds": sum(cpu for _, _, cpu in found),
        "first_seconds": 0.0,
        "versions": {"simplejpeg": version("simplejpeg")},
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
