"""NVIDIA DALI on the CPU, on the files of an ImageFolder: its decoder decodes only the part that is wanted. Batches are
`[64, 224, 224, 3] uint8`. See meter.py."""

import numpy as np
from meter import BATCH, SIDE, WORKERS, measure, run
from nvidia.dali import fn, pipeline_def, types

READER = "reader"


@pipeline_def(batch_size=BATCH, num_threads=WORKERS, device_id=None, seed=0)
def crops(folder: str):
    encoded, labels = fn.readers.file(file_root=folder, random_shuffle=True, initial_fill=1024, name=READER)
    images = fn.decoders.image_random_crop(
        encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
    )
    # A triangle where the image becomes smaller: the antialiasing that the others have.
    images = fn.resize(images, size=(SIDE, SIDE), interp_type=types.INTERP_TRIANGULAR)
    return fn.flip(images, horizontal=fn.random.coin_flip()), labels


def batches(pipeline):
    left = pipeline.epoch_size(READER)
    while left > 0:
        images, labels = pipeline.run()
        # What a program on the CPU gets; it is one memory already.
        yield np.asarray(images.as_tensor())[:left], np.asarray(labels.as_tensor())
        left -= BATCH


def read(folder: str) -> None:
    pipeline = crops(folder)
    pipeline.build()
    measure(batches(pipeline), ["nvidia-dali-cuda120"])


run(read)
