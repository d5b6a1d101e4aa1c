"""Segmentation: packs images with the masks of a folder beside them, and crops both at the same place.

    python segmentation.py data packed

The mask of `data/images/1.jpg` is `data/masks/1.png`. An image without a mask is an error: `on_missing="skip"` leaves it out,
and counts it.
"""

import sys

import shardpack
from shardpack.transforms import RandomHorizontalFlip, RandomResizedCrop

SIZE = 128


def main(src: str, dst: str) -> None:
    shardpack.pack(src, dst, no_labels=True, include=["images/**"], with_=["mask=../masks/*.png"])
    steps = [RandomResizedCrop(SIZE, scale=(0.5, 1.0)), RandomHorizontalFlip()]
    loader = shardpack.Loader(dst, 8, transform=steps, decode={"mask.png": "mask"})
    for batch in loader:
        images, masks = batch["image"], batch["mask.png"]
        # Train here: the numbers of the masks are those of the files.
        assert images.shape[1:] == (3, SIZE, SIZE) and masks.shape == (len(images), SIZE, SIZE)
    print(f"{loader.samples_of_epoch} images with masks")


if __name__ == "__main__":
    main(*sys.argv[1:])
