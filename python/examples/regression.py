"""Regression: packs a list of images with numbers, and loads the numbers as an array.

    python regression.py ages.csv faces packed

`ages.csv` has the columns `image` and `age`; the images are in the folder `faces`. `target` packs the column as the array `age.npy`.
"""

import sys

import numpy as np

import shardpack


def main(ages: str, folder: str, dst: str) -> None:
    shardpack.pack(ages, dst, root=folder, target=["age:float32"])
    train = shardpack.Loader(dst, 32, transform="train", components=["age.npy"], part=(0.0, 0.9))
    test = shardpack.Loader(dst, 32, transform="eval", components=["age.npy"], part=(0.9, 1.0), shuffle=False)
    mean = np.mean(np.concatenate([batch["age.npy"] for batch in train]))
    errors = np.concatenate([np.abs(batch["age.npy"] - mean) for batch in test])
    # A model has to be better than the mean.
    print(f"{train.samples_of_epoch} and {test.samples_of_epoch} images, mean {mean:.2f}, error {np.mean(errors):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
