"""Several views of one decode, functions on the crops of a native transform, and own batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from shardpack import transforms
from shardpack.transforms import Pipeline, RandomHorizontalFlip, RandomResizedCrop, Resize

LARGE = Pipeline([RandomResizedCrop(64, scale=(0.25, 1.0)), RandomHorizontalFlip()], reduce=False)
SMALL = Pipeline([RandomResizedCrop((20, 24), scale=(0.05, 0.25))], dtype="float32", layout="HWC", reduce=False)


def test_each_view_has_its_shape_dtype_and_cut(packed: Path) -> None:
    views = [LARGE, LARGE, *3 * [SMALL]]
    loader = shardpack.Loader(packed, 32, transform=views, output="numpy")
    seen = 0
    for batch in loader:
        images, labels = batch
        assert isinstance(images, list) and len(images) == len(batch.boxes_cropped) == 5
        shapes = [(len(labels), 3, 64, 64)] * 2 + [(len(labels), 20, 24, 3)] * 3
        assert [image.shape for image in images] == shapes
        assert [image.dtype for image in images] == [np.uint8] * 2 + [np.float32] * 3
        assert not np.array_equal(images[0], images[1]) and not np.array_equal(images[2], images[3])
        for image, cropped in zip(images, batch.boxes_cropped):
            assert len(cropped.flips) == len(labels) and image.flags.c_contiguous
        seen += len(labels)
    assert seen == 300


def test_the_first_view_is_that_of_a_loader_with_one(packed: Path) -> None:
    options: dict[str, Any] = {"seed": 4, "output": "numpy"}
    alone = [images.copy() for images, _ in shardpack.Loader(packed, 50, transform=LARGE, **options)]
    for threads in (1, 3):
        several = shardpack.Loader(packed, 50, transform=[LARGE, SMALL, "train"], threads=threads, **options)
        for expected, (images, _) in zip(alone, several):
            assert np.array_equal(images[0], expected)


def test_views_are_made_in_memory_of_torch(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    half = Pipeline([Resize((8, 9))], dtype="bfloat16")
    plain = shardpack.Loader(packed, 40, transform=[SMALL, half, LARGE], output="torch", as_dict=True)
    pinned = shardpack.Loader(packed, 40, transform=[SMALL, half, LARGE], output="torch", pin_memory=True)
    for one, (images, _) in zip(plain, pinned):
        assert [image.dtype for image in images] == [torch.float32, torch.bfloat16, torch.uint8]
        assert all(torch.equal(own, other) for own, other in zip(one["image"], images))


def test_bad_samples_are_left_out_of_all_views(tmp_path: Path) -> None:
    import io

    from PIL import Image

    def rows() -> Any:
        for number in range(12):
            content = io.BytesIO()
            Image.new("RGB", (30, 20), (number * 20, 0, 0)).save(content, "png")
            yield {"image": content.getvalue() if number % 4 else b"\x89PNG\r\n\x1a\n", "number": number}

    shardpack.pack(rows(), tmp_path / "packed", columns={"image": ".png"}, order="source")
    whole = [Pipeline([Resize((6, 5))]), Pipeline([Resize((3, 3))])]
    loader = shardpack.Loader(
        tmp_path / "packed", 12, transform=whole, components=["number.npy"], on_bad="skip", output="numpy"
    )
    (batch,) = loader
    levels = batch["number.npy"] * 20
    assert len(levels) == 9
    for view in batch["image"]:
        assert np.array_equal(view[:, 0, 0, 0], levels)


def test_functions_get_the_crops(packed: Path) -> None:
    options: dict[str, Any] = {"transform": LARGE, "seed": 2, "output": "numpy"}

    def mean(item: shardpack.Item) -> Any:
        assert item.crop.shape == (3, 64, 64) and len(item.bytes) == 0 and item.key
        return item.crop.astype(np.float32).mean(axis=(1, 2)), np.int64(item.number)

    made = shardpack.Loader(packed, 50, after=mean, **options)
    for plain, batch in zip(shardpack.Loader(packed, 50, **options), made):
        (means, numbers), labels = batch
        assert np.array_equal(labels, plain[1]) and np.array_equal(numbers, plain.samples.astype(np.int64))
        assert np.allclose(means, plain[0].mean(axis=(2, 3)), atol=1e-3)
        assert np.array_equal(batch.boxes_cropped.boxes, plain.boxes_cropped.boxes)
    views = shardpack.Loader(
        packed, 50, transform=[LARGE, SMALL], output="numpy", after=lambda item: item.crop[1].copy()
    )
    assert next(iter(views))[0].shape == (50, 20, 24, 3)


def test_a_batch_can_be_collated_by_the_caller(packed: Path) -> None:
    sizes = shardpack.Loader(packed, 25, collate_fn=lambda items: [item.size for item in items], output="numpy")
    dataset = shardpack.Dataset(packed)
    for batch in sizes:
        assert batch[0] == [dataset[int(number)].size for number in batch.samples]
    lengths = shardpack.Loader(packed, 25, sample_transform=lambda item: len(item.bytes), collate_fn=sum)
    assert sum(batch[0] for batch in lengths) == sum(len(sample.bytes) for sample in dataset)


def test_what_cannot_be_is_refused(packed: Path) -> None:
    for options, reason in [
        ({"after": len}, "images of a transform"),
        ({"transform": "train", "sample_transform": len}, "after=function"),
        ({"transform": "train", "after": 3}, "after"),
        ({"transform": [LARGE, 7]}, "7"),
        ({"transform": [[Resize(3)], LARGE]}, "one size"),
    ]:
        with pytest.raises(shardpack.UsageError, match=reason):
            shardpack.Loader(packed, **options)
    with pytest.raises(shardpack.DataError, match="cls"):
        next(iter(shardpack.Loader(packed, 4, transform=[LARGE, SMALL], roles={"cls": "mask"})))
    assert transforms.imagenet_train()
