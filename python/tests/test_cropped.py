"""Boxes and points that follow the crop of their image, as in torchvision v2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from shardpack import transforms

BOXES = np.array([[10, 20, 60, 90], [0, 0, 500, 500], [100.5, 40.25, 140, 41], [3, 3, 4, 4]], np.float32)
PIPELINES = {
    "train": [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip()],
    "eval": [transforms.Resize(48), transforms.CenterCrop(40)],
    "whole": [transforms.Resize((30, 50)), transforms.RandomHorizontalFlip()],
    "padded": [transforms.CenterCrop(700)],
}


def ragged(batch: Any) -> shardpack.Ragged:
    counts = batch.samples.astype(np.int64) % len(BOXES)
    rows = [BOXES[:count] + np.float32(number % 5) for count, number in zip(counts, batch.samples)]
    return shardpack.Ragged(np.concatenate(rows), np.concatenate([[0], np.cumsum(counts)]))


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("name", PIPELINES)
def test_boxes_and_points_move_as_their_pixels(packed: Path, name: str, layout: str) -> None:
    pipeline = shardpack.transforms.Pipeline(PIPELINES[name], layout=layout)
    for batch in shardpack.Loader(packed, 50, transform=pipeline, output="numpy"):
        cropped, boxes = batch.boxes_cropped, ragged(batch)
        height, width = batch[0].shape[2:] if layout == "CHW" else batch[0].shape[1:3]
        labels = shardpack.Ragged(np.arange(len(boxes.values)), boxes.offsets)
        moved, own = cropped.move_boxes(boxes, labels)
        corners = cropped.move_points(shardpack.Ragged(boxes.values.reshape(-1, 2), boxes.offsets * 2))
        for at in range(len(boxes)):
            left, top, right, bottom = cropped.placed[at]
            assert 0 <= left < right <= width and 0 <= top < bottom <= height
            expected = []
            for number, (one, other) in zip(labels[at], corners[at].reshape(-1, 2, 2)):
                xs, ys = sorted([one[0], other[0]]), [one[1], other[1]]
                edges = (width - right, width - left) if cropped.flips[at] else (left, right)
                box = [*np.clip(xs, *edges), *np.clip(ys, top, bottom)]
                box = [box[0], box[2], box[1], box[3]]
                if box[2] - box[0] >= 1 and box[3] - box[1] >= 1:
                    expected.append((number, box))
            assert own[at].tolist() == [number for number, _ in expected]
            np.testing.assert_allclose(moved[at], np.array([box for _, box in expected]).reshape(-1, 4), atol=1e-3)


def test_samples_without_boxes_are_none_in_a_list(packed: Path) -> None:
    batch = next(iter(shardpack.Loader(packed, 3, transform="eval", output="numpy")))
    box = np.array([[0, 0, 400, 400]], np.float32)
    moved, labels = batch.boxes_cropped.move_boxes([box, None, box], [np.array([7]), None, np.array([9])])
    assert moved.lengths.tolist() == [1, 0, 1] and labels.values.tolist() == [7, 9]
    (none,) = batch.boxes_cropped.move_boxes([None] * 3)
    assert none.values.shape == (0, 4) and none.lengths.tolist() == [0, 0, 0]
    assert batch.boxes_cropped.move_points([None, None, box[:, :2]]).lengths.tolist() == [0, 0, 1]


def test_what_does_not_fit_is_refused(packed: Path) -> None:
    batch = next(iter(shardpack.Loader(packed, 4, transform="eval", output="numpy")))
    boxes = shardpack.Ragged(np.zeros((4, 4), np.float32), np.arange(5))
    with pytest.raises(ValueError, match="4 images"):
        batch.boxes_cropped.move_boxes(boxes[:2])
    with pytest.raises(ValueError, match="rows of 4 numbers"):
        batch.boxes_cropped.move_boxes(shardpack.Ragged(np.zeros((4, 2)), np.arange(5)))
    with pytest.raises(ValueError, match="another number of rows"):
        batch.boxes_cropped.move_boxes(boxes, shardpack.Ragged(np.zeros(5), np.array([0, 1, 2, 3, 5])))
    assert next(iter(shardpack.Loader(packed, 4, output="numpy"))).boxes_cropped is None


def test_boxes_are_those_of_torchvision(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional

    dataset = shardpack.Dataset(packed)
    for name in ("train", "eval", "whole"):
        batch = next(iter(shardpack.Loader(packed, 60, transform=PIPELINES[name], output="torch")))
        cropped, boxes = batch.boxes_cropped, ragged(batch)
        tensors = shardpack.Ragged(torch.from_numpy(boxes.values), torch.from_numpy(boxes.offsets))
        moved, kept = cropped.move_boxes(tensors, shardpack.Ragged(torch.arange(len(boxes.values)), tensors.offsets))
        assert moved.values.dtype == torch.float32
        for at, number in enumerate(batch.samples):
            width, height = dataset[int(number)].size
            own = tv_tensors.BoundingBoxes(boxes[at], format="XYXY", canvas_size=(height, width))
            if name == "eval":
                own = v2.CenterCrop(40)(v2.Resize(48)(own))
            else:
                left, top, right, bottom = (int(edge) for edge in cropped.boxes[at])
                size = [64, 64] if name == "train" else [30, 50]
                own = functional.resized_crop(own, top, left, bottom - top, right - left, size)
            if cropped.flips[at]:
                own = functional.horizontal_flip(own)
            own = functional.clamp_bounding_boxes(own)
            labels = torch.arange(len(own)) + int(boxes.offsets[at])
            clean = v2.SanitizeBoundingBoxes(min_size=1)({"boxes": own, "labels": labels})
            assert kept[at].tolist() == clean["labels"].tolist()
            torch.testing.assert_close(moved[at], clean["boxes"].as_subclass(torch.Tensor), atol=2e-4, rtol=1e-5)
