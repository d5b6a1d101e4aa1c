"""SPDL on the files of an ImageFolder, with its threads; FFmpeg decodes, cuts and resizes. Batches are `[64, 224, 224, 3] uint8`.
See meter.py."""

import random

import numpy as np
import spdl.io
from meter import BATCH, SIDE, WORKERS, listing, measure, run
from spdl.pipeline import PipelineBuilder


def filters(width: int, height: int) -> str:
    x, y, wide, high = box(width, height)
    flip = ",hflip" if random.random() < 0.5 else ""
    return f"crop={wide}:{high}:{x}:{y}:exact=1,scale={SIDE}:{SIDE}:flags=bilinear{flip},format=rgb24"


def box(width: int, height: int) -> tuple[int, int, int, int]:
    """A random part, as RandomResizedCrop draws it: left, top, width, height."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        aspect = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        wide, high = round((area * aspect) ** 0.5), round((area / aspect) ** 0.5)
        if 0 < wide <= width and 0 < high <= height:
            return random.randint(0, width - wide), random.randint(0, height - high), wide, high
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def image(path_and_label):
    path, label = path_and_label
    packets = spdl.io.demux_image(str(path))
    description = filters(packets.width, packets.height)
    return spdl.io.decode_packets(packets, filter_desc=description), label


def batch(samples):
    frames, labels = zip(*samples)
    return spdl.io.to_numpy(spdl.io.convert_frames(list(frames))), np.array(labels)


def read(folder: str) -> None:
    samples = listing(folder)
    builder = PipelineBuilder().add_source(samples).pipe(image, concurrency=WORKERS).aggregate(BATCH).pipe(batch).add_sink(2)
    pipeline = builder.build(num_threads=WORKERS)
    with pipeline.auto_stop():
        measure(pipeline.get_iterator(), ["spdl", "spdl-io"])


run(read)
