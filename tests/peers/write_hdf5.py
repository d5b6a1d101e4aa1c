"""Writes an ImageFolder tree and arrays as HDF5 files in the layouts of common scripts: write_hdf5.py SRC DST.

DST/NAME.h5 for each layout. Classes are numbered like in torchvision's ImageFolder. For arrays, image N of NAME.h5 is
DST/expected/NAME-N.npy, with label N % 3.
"""

import os
import sys

import h5py
import numpy as np

from write_lmdb import samples

ROWS = 14


def encoded(out, source):
    """Writes the photographs unchanged."""
    rows = list(samples(source))
    paths, labels, images = zip(*rows)
    names = sorted({path.split("/")[0] for path in paths})

    def vlen(name, labels, libver="earliest", chunks=None, **options):
        with h5py.File(f"{out}/{name}.h5", "w", libver=libver, **options) as file:
            filters = {"chunks": chunks, "compression": "gzip"} if chunks else {}
            data = file.create_dataset("images", (len(rows),), h5py.vlen_dtype(np.uint8), **filters)
            for number, image in enumerate(images):
                data[number] = np.frombuffer(image, np.uint8)
            if labels is not None:
                file["labels"] = labels
            file["filenames"] = np.array(paths, dtype="S")
            file["classes"] = np.array(names, dtype="S")

    vlen("vlen", np.array(labels, ">i2"))
    vlen("vlen-latest", np.array(labels, "<f8"), libver="latest", chunks=(5,))
    vlen("vlen-one-hot", np.eye(len(names), dtype=np.uint8)[list(labels)], userblock_size=1024)
    vlen("vlen-many", np.array([[1, 1, 0, 0, 0]] * len(rows)))
    with h5py.File(f"{out}/vlen-text.h5", "w") as file:
        data = file.create_dataset("data/jpeg", (len(rows),), h5py.vlen_dtype(np.uint8))
        for number, image in enumerate(images):
            data[number] = np.frombuffer(image, np.uint8)
        file["data/class"] = [names[label] for label in labels]
        file["data/embedding"] = np.zeros((len(rows), 7), np.float32)
    with h5py.File(f"{out}/fixed.h5", "w") as file:
        # numpy strips zero bytes from the end; no JPEG or PNG ends with a zero byte.
        file["encoded"] = np.array(images, dtype="S")
        file["targets"] = np.array(labels, np.uint8)[:, None]
    for name, libver in (("groups", "earliest"), ("groups-latest", "latest")):
        with h5py.File(f"{out}/{name}.h5", "w", libver=libver) as file:
            for path, label, image in rows:
                dataset = f"{names[label]}/{path.split('/', 1)[1].replace('/', '-')}"
                file[dataset] = np.frombuffer(image, np.uint8) if label % 2 else np.void(image)
    with h5py.File(f"{out}/isic.h5", "w") as file:
        for number, image in enumerate(images):
            file[f"ISIC_{number:07d}"] = np.void(image)
    with open(f"{out}/list-of-isic.csv", "w") as file:
        file.write("isic_id,target,patient_id\n")
        file.writelines(f"ISIC_{number:07d},{label},P{number}\n" for number, label in enumerate(labels))
    with h5py.File(f"{out}/group-splits.h5", "w") as file:
        for path, label, image in rows:
            split = "train" if label else "val"
            file[f"{split}/{names[label]}/{os.path.basename(path)}"] = np.frombuffer(image, np.uint8)


def arrays(out):
    """Writes noise, so that a comparison detects any wrong byte."""
    noise = np.random.default_rng(7)
    labels = np.arange(ROWS) % 3

    def expect(name, images):
        for number, image in enumerate(images):
            np.save(f"{out}/expected/{name}-{number}.npy", image)

    ways = {
        "nhwc": ((8, 9, 3), {}),
        "nchw": ((3, 8, 9), {"chunks": (4, 3, 8, 9), "compression": "gzip", "shuffle": True}),
        "gray": ((8, 9), {"chunks": (5, 4, 4), "compression": "lzf", "maxshape": (None, 8, 9)}),
        "sums": ((8, 9, 1), {"chunks": (2, 8, 9, 1), "fletcher32": True}),
        "grown": ((3, 8, 9), {"chunks": (5, 3, 8, 9), "compression": "lzf", "shuffle": True, "maxshape": (None,) * 4}),
    }
    for libver in ("earliest", "latest"):
        for way, (shape, options) in ways.items():
            name = f"{way}-{libver}"
            images = noise.integers(0, 256, (ROWS, *shape), np.uint8)
            images[ROWS // 2] = 7
            with h5py.File(f"{out}/{name}.h5", "w", libver=libver) as file:
                file.create_dataset("imgs", data=images, **options)
                chunks = {"chunks": (5,), "compression": "lzf"} if options.get("chunks") else {}
                file.create_dataset("labels", data=labels, **chunks)
            expect(name, images)
    images = noise.integers(0, 256, (ROWS, 4, 5, 3), np.uint8)
    with h5py.File(f"{out}/splits.h5", "w") as file:
        for split, rows in (("train", slice(0, 10)), ("test", slice(10, ROWS))):
            file[f"x_{split}"] = images[rows]
            file[f"y_{split}"] = labels[rows]
    expect("splits", images)
    with h5py.File(f"{out}/several.h5", "w") as file:
        file["left"] = images
        file["right"] = images[::-1]
        file["fine"] = labels
        file["coarse"] = labels // 2
    with h5py.File(f"{out}/float.h5", "w") as file:
        file["images"] = images.astype(np.float32)
        file["labels"] = labels
    fuel(f"{out}/fuel.h5", noise, labels, expect)


def fuel(path, noise, labels, expect):
    """The layout of Fuel's H5PYDataset: flat pixels of any size, shapes as a dimension scale, and the attribute `split`."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("image_features", (ROWS,), h5py.vlen_dtype(np.uint8))
        shapes = file.create_dataset("image_features_shapes", (ROWS, 3), np.int32)
        images = [noise.integers(0, 256, (3, 4 + number, 5), np.uint8) for number in range(ROWS)]
        for number, image in enumerate(images):
            data[number] = image.reshape(-1)
            shapes[number] = image.shape
        shapes.make_scale("shapes")
        data.dims[0].attach_scale(shapes)
        file["targets"] = labels[:, None].astype(np.uint8)
        kind = [("split", "S5"), ("source", "S14"), ("start", np.int64), ("stop", np.int64)]
        kind += [("indices", h5py.ref_dtype), ("available", bool), ("comment", "S1")]
        rows = [
            (split, source, start, stop, h5py.Reference(), True, b".")
            for split, start, stop in ((b"train", 0, 10), (b"valid", 10, ROWS))
            for source in (b"image_features", b"targets")
        ]
        file.attrs["split"] = np.array(rows, dtype=np.dtype(kind))
    expect("fuel", images)


if __name__ == "__main__":
    source, out = sys.argv[1:]
    os.makedirs(f"{out}/expected")
    encoded(out, source)
    arrays(out)
