"""Counts the images of a source as other libraries read it.

Args:
    kind: tree, csv, jsonl, parquet, text or coco.
    path: The folder, or the list.

Prints one JSON object: `images`, their number, and `others`, the number of other files in a tree.
"""

import csv
import json
import os
import sys

# torchvision.datasets.folder.IMG_EXTENSIONS of 0.29; has_file_allowed_extension compares in lower case.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def tree(root):
    """Walks the classes like torchvision's make_dataset, but skips dot names, as documented in docs/reference/on-disk.md."""
    images = others = 0
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        if not entry.is_dir() or entry.name.startswith("."):
            others += not entry.is_dir()
            continue
        for _, folders, names in os.walk(entry.path, followlinks=True):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.lower().endswith(EXTENSIONS) and not name.startswith("."):
                    images += 1
                else:
                    others += 1
    return images, others


def rows(kind, path):
    if kind == "csv":
        with open(path, newline="") as file:
            return sum(1 for _ in csv.DictReader(file))
    if kind == "jsonl":
        with open(path) as file:
            return sum(1 for line in file if line.strip() and json.loads(line))
    if kind == "text":
        with open(path) as file:
            return sum(1 for line in file if line.split())
    if kind == "coco":
        with open(path) as file:
            return len(json.load(file)["images"])
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path).num_rows


kind, path = sys.argv[1:]
images, others = tree(path) if kind == "tree" else (rows(kind, path), 0)
print(json.dumps({"images": images, "others": others}))
