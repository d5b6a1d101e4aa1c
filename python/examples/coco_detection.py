"""Detection: packs the images of a COCO file with their boxes, and loads crops with the boxes that are left in each.

    python coco_detection.py annotations/instances_val2017.json val2017 packed

A sample has `boxes`, float32[n,4] (left, top, right, bottom in pixels), and `box_labels`, int64[n]: class numbers from 0.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import shardpack
from shardpack.transforms import RandomHorizontalFlip, Resize


def rows(coco: dict[str, Any], folder: str) -> Iterator[dict[str, Any]]:
    """One dict for each image, in the order of the file."""
    number = {category["id"]: at for at, category in enumerate(coco["categories"])}
    objects = defaultdict(list)
    for one in coco["annotations"]:
        if not one.get("iscrowd"):
            objects[one["image_id"]].append(one)
    for image in coco["images"]:
        found = objects[image["id"]]
        boxes = np.array([one["bbox"] for one in found], np.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        yield {
            "image": Path(folder, image["file_name"]).read_bytes(),
            "boxes": boxes,
            "box_labels": np.array([number[one["category_id"]] for one in found], np.int64),
            "image_id": image["id"],
        }


def main(annotations: str, folder: str, dst: str) -> None:
    coco = json.loads(Path(annotations).read_text())
    names = [category["name"] for category in coco["categories"]]
    columns = {"boxes": "float32[n,4]", "box_labels": "int64[n]"}
    shardpack.pack(rows(coco, folder), dst, columns=columns)

    # Boxes follow the crop; those that leave it are dropped with their labels.
    steps = [Resize((480, 640)), RandomHorizontalFlip()]
    loader = shardpack.Loader(dst, 16, transform=steps, components=["boxes.npy", "box_labels.npy"])
    objects = 0
    for batch in loader:
        for image, boxes, labels in zip(batch["image"], batch["boxes.npy"], batch["box_labels.npy"]):
            # Train here: boxes are in pixels of the resized image.
            assert image.shape == (3, 480, 640) and boxes.shape == (len(labels), 4)
            objects += len(labels)
    print(f"{loader.samples_of_epoch} images, {objects} boxes, {len(names)} classes")


if __name__ == "__main__":
    main(*sys.argv[1:])
