"""Resize an ImageFolder with Pillow and a pool of processes, as people do before they pack; print seconds and CPU seconds.

    resize.py SOURCE DESTINATION SHORT

The shorter side becomes SHORT, the filter is Pillow's bicubic, JPEG quality 90; images that are not larger are copied.
One process a core, imports not counted; the files are written to a tree and not synced.
"""

import os
import resource
import shutil
import sys
import time
from multiprocessing import Pool
from pathlib import Path

from PIL import Image


def resize(work: tuple[Path, Path, int]) -> None:
    """Makes one image."""
    source, destination, short = work
    with Image.open(source) as image:
        width, height = image.size
        if min(width, height) <= short:
            shutil.copyfile(source, destination)
            return
        scale = short / min(width, height)
        # Decodes at a reduced size where that is still as large: what libjpeg offers and experienced users ask for.
        image.draft("RGB", (int(width * scale), int(height * scale)))
        size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
        image.convert("RGB").resize(size, Image.Resampling.BICUBIC).save(destination, "JPEG", quality=90)


def main(source: Path, destination: Path, short: int) -> None:
    """Makes all."""
    work = []
    for folder in sorted(entry for entry in source.iterdir() if entry.is_dir()):
        (destination / folder.name).mkdir(parents=True)
        work += [(file, destination / folder.name / file.name, short) for file in sorted(folder.iterdir())]
    with Pool(os.cpu_count()) as pool:
        for _ in pool.imap_unordered(resize, work, chunksize=16):
            pass


if __name__ == "__main__":
    start = time.perf_counter()
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(time.perf_counter() - start, sum(one.ru_utime + one.ru_stime for one in used))
