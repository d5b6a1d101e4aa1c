"""Writes files of numpy whose rows are samples, and the same arrays as HDF5: write_rows.py FOLDER.

`images/` and `values/` have `rows.npz` (stored), `deflated.npz`, the folder `files` of `.npy` files, and `rows.h5`. `truth.npz` has the arrays
by the names of their splits.
"""

import os
import sys

import h5py
import numpy as np

out = sys.argv[1]
rng = np.random.default_rng(0)


def write(name, arrays, plain=None):
    """Writes `arrays`; in HDF5 `plain`, where a type has no counterpart there."""
    folder = os.path.join(out, name)
    os.makedirs(os.path.join(folder, "files"))
    np.savez(os.path.join(folder, "rows.npz"), **arrays)
    np.savez_compressed(os.path.join(folder, "deflated.npz"), **arrays)
    for array, items in arrays.items():
        np.save(os.path.join(folder, "files", array + ".npy"), items)
    with h5py.File(os.path.join(folder, "rows.h5"), "w") as file:
        for array, items in {**arrays, **(plain or {})}.items():
            file[array] = items


labels = np.arange(60) % 10
write(
    "images",
    {
        "x_train": rng.integers(0, 255, (60, 28, 28), dtype="u1"),
        "y_train": labels.astype("u1"),
        "weight_train": rng.random((60, 3)).astype(">f4"),
        "x_test": rng.integers(0, 255, (20, 28, 28), dtype="u1"),
        "y_test": labels[:20].astype("u1"),
        "weight_test": rng.random((20, 3)).astype(">f4"),
        "mean": rng.random(28),
    },
)
# Larger than a batch of rows, so that several are read.
values = {
    "data": np.asfortranarray(rng.random((3000, 60, 2))),
    "target": (np.arange(3000) % 7)[:, None].astype(">i2"),
    "is_odd": np.arange(3000) % 2 == 1,
}
write("values", values)
