"""FFCV on a file of its own, which it cannot fill without decoding: JPEGs are encoded anew, at quality 90.
The compilation that each process begins with is before the first batch. See meter.py."""

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, ToTensor
from ffcv.writer import DatasetWriter
from meter import BATCH, SIDE, WORKERS, listing, measure, run
from PIL import Image


class Source:
    def __init__(self, samples) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int):
        path, label = self.samples[number]
        return np.asarray(Image.open(path).convert("RGB")), label


def write(source: str, destination: str) -> None:
    fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
    DatasetWriter(destination, fields, num_workers=WORKERS).from_indexed_dataset(Source(listing(source)))


def read(path: str) -> None:
    steps = [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip(), ToTensor()]
    loader = Loader(
        path,
        batch_size=BATCH,
        num_workers=WORKERS,
        order=OrderOption.RANDOM,
        os_cache=True,
        pipelines={"image": steps, "label": [IntDecoder(), ToTensor()]},
    )
    measure(loader, ["torch", "ffcv", "numba"])


if __name__ == "__main__":
    run(read, write)
