"""Segmentation: packs images with the masks of a folder beside them, and crops both at the same place.

    python segmentation.py data packed

The mask of `data/images/1.jpg` is `data/masks/1.png`. An image without a mask is an error: `on_missing="skip"` leaves it out,
and counts it.
"""

import io
import sys
from typing import Any

import numpy as np
from PIL import Image

import shardpack

SIZE = 128


def crop(batch: Any) -> tuple[Any, Any]:
    """Arrays of random crops: images [B, SIZE, SIZE, 3] and masks [B, SIZE, SIZE]."""
    images, masks = [], []
    for image, mask, number in zip(batch["image"], batch["mask.png"], batch.samples):
        image, mask = Image.open(io.BytesIO(image)).convert("RGB"), Image.open(io.BytesIO(mask))
        assert image.size == mask.size
        # The same crop for the same sample and epoch, in every run.
        random = np.random.default_rng((batch.epoch, int(number)))
        left, top = random.integers(0, np.maximum(np.array(image.size) - SIZE, 0) + 1)
        box = (left, top, left + SIZE, top + SIZE)
        images.append(np.asarray(image.crop(box)))
        masks.append(np.asarray(mask.crop(box)))
    return np.stack(images), np.stack(masks)


def main(src: str, dst: str) -> None:
    shardpack.pack(src, dst, no_labels=True, include=["images/**"], with_=["mask=../masks/*.png"])
    loader = shardpack.Loader(dst, 8, components=["mask.png"], batch_transform=crop)
    for images, masks in loader:
        # Train here.
        assert images.shape[1:] == (SIZE, SIZE, 3) and masks.shape[1:] == (SIZE, SIZE)
    print(f"{loader.samples_of_epoch} images with masks")


if __name__ == "__main__":
    main(*sys.argv[1:])
