"""Molecules: converts an LMDB of pickled dicts, and loads batches of graphs with different numbers of atoms.

    python molecules.py is2re/train.lmdb packed

Each value of the database is a dict of arrays and numbers. Arrays keep dtype and shape, and numbers stay numbers. Nothing in a pickle is
executed.
"""

import sys
from typing import Any

import numpy as np

import shardpack


def joined(batch: Any) -> tuple[Any, Any, Any, Any]:
    """One large graph: the atoms of all molecules, and for each atom the number of its molecule."""
    atoms, positions = batch["atomic_numbers.npy"], batch["pos.npy"]
    molecules = np.repeat(np.arange(len(atoms)), atoms.lengths)
    return atoms.values, positions.values, molecules, np.array(batch["y.json"])


def main(src: str, dst: str) -> None:
    # Small samples take the least space in MDS.
    shardpack.convert(src, dst, format="mds", no_labels=True)
    print("components:", ", ".join(sorted(shardpack.Dataset(dst)[0].components)))
    names = ["atomic_numbers.npy", "pos.npy", "y.json"]
    loader = shardpack.Loader(dst, 32, components=names, batch_transform=joined)
    total = 0
    for atoms, positions, molecules, energies in loader:
        # Train here.
        assert positions.shape == (len(atoms), 3) and molecules.max() + 1 == len(energies)
        total += len(atoms)
    print(f"{loader.samples_of_epoch} molecules, {total} atoms")


if __name__ == "__main__":
    main(*sys.argv[1:])
