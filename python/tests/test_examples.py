"""Each script in python/examples, on a small dataset of its kind."""

from __future__ import annotations

import io
import json
import pickle
import re
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardpack
from conftest import PHOTOS, make_tree

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def imagenet(folder: Path) -> tuple[list[str], int, str]:
    make_tree(folder / "train", 130, 5)
    return ["train"], 130, "verified: True\nepoch 0: .*complete: True classes: 5"


def coco_detection(folder: Path) -> tuple[list[str], int, str]:
    (folder / "val").mkdir()
    images, annotations = [], []
    for number, photo in enumerate(PHOTOS[:20]):
        (folder / "val" / f"{number}.jpg").write_bytes(photo.read_bytes())
        images.append({"id": number + 7, "file_name": f"{number}.jpg"})
        annotations += [{"image_id": number + 7, "category_id": 5, "bbox": [1, 2, 3, 4]}] * (number % 3)
    annotations.append({"image_id": 8, "category_id": 2, "bbox": [0, 0, 9, 9], "iscrowd": 1})
    categories = [{"id": 2, "name": "cat"}, {"id": 5, "name": "dog"}]
    coco = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "val.json").write_text(json.dumps(coco))
    return ["val.json", "val"], 20, "20 images, 19 boxes, 2 classes"


def segmentation(folder: Path) -> tuple[list[str], int, str]:
    for name in ("images", "masks"):
        (folder / "data" / name).mkdir(parents=True)
    for number in range(12):
        Image.new("RGB", (140 + number, 150), (number, 0, 0)).save(folder / "data/images" / f"{number}.jpg")
        Image.new("L", (140 + number, 150), number).save(folder / "data/masks" / f"{number}.png")
    return ["data"], 12, "12 images with masks"


def clip_pairs(folder: Path) -> tuple[list[str], int, str]:
    (folder / "pairs").mkdir()
    for number, photo in enumerate(PHOTOS[:15]):
        (folder / "pairs" / f"{number}.jpg").write_bytes(photo.read_bytes())
        (folder / "pairs" / f"{number}.txt").write_text(f"photo {number}")
    return ["pairs"], 15, "15 pairs, 30 words"


def audio(folder: Path) -> tuple[list[str], int, str]:
    (folder / "LJ/wavs").mkdir(parents=True)
    lines = []
    for number in range(20):
        content = io.BytesIO()
        with wave.open(content, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(8000)
            sound.writeframes(np.full(800, number, "<i2").tobytes())
        (folder / f"LJ/wavs/a{number}.wav").write_bytes(content.getvalue())
        lines.append(f"a{number}|text {number}|text\n")
    (folder / "LJ/metadata.csv").write_text("".join(lines))
    return ["LJ"], 20, "20 sounds, 2.0 seconds"


def molecules(folder: Path) -> tuple[list[str], int, str]:
    lmdb = pytest.importorskip("lmdb", reason="lmdb is not installed")
    database = lmdb.open(str(folder / "train.lmdb"), subdir=False)
    with database.begin(write=True) as put:
        for number in range(40):
            atoms = number % 4 + 1
            value = {"atomic_numbers": np.arange(atoms), "pos": np.zeros((atoms, 3), np.float32), "y": number / 8}
            put.put(str(number).encode(), pickle.dumps(value))
    database.close()
    return ["train.lmdb"], 40, "components: .*40 molecules, 100 atoms"


def regression(folder: Path) -> tuple[list[str], int, str]:
    make_tree(folder / "faces", 40, 1)
    lines = [f"class00/{number:06}.jpg,{20 + number / 4}\n" for number in range(40)]
    (folder / "ages.csv").write_text("image,age\n" + "".join(lines))
    return ["ages.csv", "faces"], 40, "36 and 4 images, mean .*, error "


MAKE: list[Callable[[Path], tuple[list[str], int, str]]] = [
    imagenet,
    coco_detection,
    segmentation,
    clip_pairs,
    audio,
    molecules,
    regression,
]


def test_every_example_is_run() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    # test_torch.py runs the example that needs torch.
    assert sorted(scripts - {"train_resnet"}) == sorted(make.__name__ for make in MAKE)


@pytest.mark.parametrize("make", MAKE, ids=lambda make: make.__name__)
def test_example(make: Callable[[Path], tuple[list[str], int, str]], tmp_path: Path) -> None:
    sources, samples, expected = make(tmp_path)
    command = [sys.executable, str(EXAMPLES / f"{make.__name__}.py"), *sources, "packed"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert re.search(expected, run.stdout, re.S), run.stdout
    assert len(shardpack.Dataset(tmp_path / "packed")) == samples
