"""Writes HDF5 files with one group per sample: write_groups.py DST.

- `groups.h5`: `/000001/{x, y, …}` of every layout and type, with attributes, and lengths that vary;
- `splits.h5`: `train/…` and `test/…` with such groups; `alike.h5`: groups with equal row counts;
- `tables.h5`: two groups of tables with equal row counts; `folds.h5`: five groups with different row counts.

NAME.json beside the first holds the text of every sample's fields, as `read_values.py` prints it.
"""

import os
import sys

import h5py
import numpy as np

from write_parquet import DOUBLES, SINGLES, expect


def groups(path, latest):
    random = np.random.default_rng(3)
    samples = []
    with h5py.File(path, "w", libver="latest" if latest else "earliest") as file:
        file["about"] = "what is of no sample"
        for number in range(30):
            atoms = 1 + number % 7
            x = random.normal(size=(atoms, 8)).astype(np.float32)
            x[0, :5] = SINGLES
            sample = {
                "x": x,
                "forces": random.normal(size=(atoms, 3)),
                "big": np.arange(atoms, dtype=">i4"),
                "none": np.zeros((0, 3), np.int16),
                "yes": np.array([True, False, number % 2 == 0]),
                "energy": np.asarray(DOUBLES[number % 4]),
                "turn": np.asarray(number, np.uint8),
                "y": number % 3,
            }
            group = file.create_group(f"{number:06}")
            for name, value in sample.items():
                chunked = isinstance(value, np.ndarray) and value.ndim == 2 and len(value) and number % 2
                packed = {"chunks": (1, value.shape[1]), "compression": "gzip", "shuffle": True} if chunked else {}
                group.create_dataset(name, data=value, **packed)
            # A compact dataset: the object header holds the items.
            space, create = h5py.h5s.create_simple((3,)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            create.set_layout(h5py.h5d.COMPACT)
            made = h5py.h5d.create(group.id, b"compact", h5py.h5t.NATIVE_INT16, space, create)
            sample["compact"] = np.array([number, -1, 7], np.int16)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, sample["compact"])
            group["name"] = sample["name"] = f"molecule {number} \u00e9"
            words = ["a", "\u4e2d", ""]
            group.create_dataset("words", data=words, dtype=h5py.string_dtype())
            sample["words"] = words
            group.attrs["charge"] = np.int32(number - 5)
            group.attrs["source"] = "made"
            sample["charge"], sample["source"] = np.asarray(number - 5, np.int32), "made"
            sample["label"] = sample.pop("y")
            samples.append(sample)
    expect(path, samples)


def main():
    out = sys.argv[1]
    for latest in (False, True):
        groups(os.path.join(out, "latest.h5" if latest else "groups.h5"), latest)
    with h5py.File(os.path.join(out, "splits.h5"), "w") as file:
        for split, count in (("train", 5), ("test", 3)):
            for number in range(count):
                group = file.create_group(f"{split}/sample_{number}")
                group["x"], group["y"] = np.arange(2 + number, dtype=np.float32), number % 2
    with h5py.File(os.path.join(out, "alike.h5"), "w") as file:
        for number in range(20):
            group = file.create_group(f"sample_{number}")
            group["x"], group["z"] = np.full((4, 2), number, np.float32), np.arange(4)
    with h5py.File(os.path.join(out, "tables.h5"), "w") as file:
        for name in ("left", "right"):
            group = file.create_group(name)
            group["x"], group["z"] = np.zeros((9, 2), np.float32), np.arange(9)
    with h5py.File(os.path.join(out, "folds.h5"), "w") as file:
        for number in range(5):
            group = file.create_group(f"fold_{number}")
            group["x"], group["z"] = np.zeros((9 + number, 2), np.float32), np.arange(9 + number)


if __name__ == "__main__":
    main()
