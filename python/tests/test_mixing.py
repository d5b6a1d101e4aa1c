"""MixUp and CutMix: images and labels of whole batches, compared with numpy on the batches without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from shardpack import transforms
from shardpack.transforms import (
    CutMix,
    MixUp,
    Normalize,
    Pad,
    Pipeline,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)

STEPS = [RandomResizedCrop((20, 28)), RandomHorizontalFlip()]


def batches(packed: Path, transform: Any, **options: Any) -> list[shardpack.Batch]:
    return list(shardpack.Loader(packed, 32, transform=transform, output="numpy", seed=5, **options))


def one_hot(batch: Any, classes: int) -> Any:
    return np.eye(classes, dtype=np.float32)[batch[1]]


@pytest.mark.parametrize(("dtype", "most"), [(None, 0.51), ("float32", 1e-6), ("float16", 2e-3)])
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_images_and_labels_are_mixed_with_the_one_before(
    packed: Path, dtype: str | None, most: float, layout: str
) -> None:
    steps = [*STEPS, *([Normalize()] if dtype else [])]
    plain = batches(packed, Pipeline(steps, dtype=dtype, layout=layout))
    classes = len(shardpack.Dataset(packed).classes)
    shares = set()
    for step in (MixUp(0.8), CutMix()):
        mixed = batches(packed, Pipeline([*steps, step], dtype=dtype, layout=layout))
        assert len(mixed) == len(plain)
        for before, after in zip(plain, mixed):
            assert (before.samples == after.samples).all() and after[1].dtype == np.float32
            expected, own = one_hot(before, classes), float(after[1].max())
            other = np.roll(expected, 1, 0)
            different = (expected != other).any(1)
            if not different.any():
                continue
            # The share is that of the labels.
            own = float((after[1] * expected).sum(1)[different].mean())
            assert np.allclose(after[1], own * expected + (1 - own) * other, atol=1e-6)
            images, rolled = before[0].astype(np.float32), np.roll(before[0], 1, 0).astype(np.float32)
            found = after[0].astype(np.float32)
            if isinstance(step, MixUp):
                assert np.abs(found - (own * images + (1 - own) * rolled)).max() <= most + 1e-5
            else:
                channels = -1 if layout == "HWC" else 1
                is_other = (found != images).any((0, channels))
                down, across = np.nonzero(is_other)
                if len(down):
                    box = np.zeros_like(is_other)
                    box[down.min() : down.max() + 1, across.min() : across.max() + 1] = True
                    place = box[..., None] if layout == "HWC" else box
                    assert (found == np.where(place, rolled, images)).all()
                    assert own == pytest.approx(1 - box.mean(), abs=1e-5)
            shares.add(own)
    assert len(shares) > 12


def test_one_of_several_is_chosen_for_each_batch(packed: Path) -> None:
    plain = batches(packed, STEPS, batch_transform=lambda batch: batch[0])
    steps = [*STEPS, RandomChoice([MixUp(), CutMix()], p=[0.4, 0.3])]
    counts = [0, 0, 0]
    for epoch in range(8):
        loader = shardpack.Loader(packed, 8, transform=steps, output="numpy", seed=5, threads=1 + epoch % 2)
        bare = shardpack.Loader(packed, 8, transform=STEPS, output="numpy", seed=5)
        loader.set_epoch(epoch)
        bare.set_epoch(epoch)
        for before, after in zip(bare, loader):
            changed = (before[0] != after[0]).mean()
            counts[0 if changed > 0.9 else 1 if changed else 2] += 1
    assert plain and 0.2 < counts[0] / sum(counts) < 0.55 and min(counts) > 15, counts


def test_mixed_batches_are_the_same_on_any_number_of_threads_and_go_on(packed: Path) -> None:
    steps = [*STEPS, RandomChoice([MixUp(), CutMix()])]
    one, three = (batches(packed, steps, threads=threads) for threads in (1, 3))
    for before, after in zip(one, three):
        assert all(np.array_equal(*pair) for pair in zip(before, after))
    loader = shardpack.Loader(packed, 32, transform=steps, output="numpy", seed=5)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    other = shardpack.Loader(packed, 32, transform=steps, output="numpy")
    other.load_state_dict(loader.state_dict())
    rest = list(other)
    assert len(rest) == len(one) - 3
    for before, after in zip(one[3:], rest):
        assert all(np.array_equal(*pair) for pair in zip(before, after))


def test_batches_of_few_samples_are_mixed(packed: Path, tmp_path: Path) -> None:
    (batch,) = shardpack.Loader(packed, 1, transform=[*STEPS, MixUp()], range=range(1), output="numpy")
    (plain,) = shardpack.Loader(packed, 1, transform=STEPS, range=range(1), output="numpy")
    assert np.abs(batch[0].astype(int) - plain[0]).max() <= 1 and batch[1].sum() == pytest.approx(1)
    assert "1.00" in batch._repr_html_()
    image = shardpack.Dataset(packed)[0].bytes
    rows = [{"image": image[: len(image) // 2], "label": 0}] * 2 + [{"image": image, "label": 1}]
    shardpack.pack(rows, tmp_path / "bad", columns={"image": "jpeg", "label": "class"}, order="source")
    skipped = list(
        shardpack.Loader(
            tmp_path / "bad", 2, transform=[*STEPS, MixUp(num_classes=4)], on_bad="skip", shuffle=False, output="numpy"
        )
    )
    assert [one[1].shape for one in skipped] == [(0, 4), (1, 4)]


def test_labels_that_cannot_be_mixed_are_refused(packed: Path, tmp_path: Path) -> None:
    classes = len(shardpack.Dataset(packed).classes)
    with pytest.raises(shardpack.UsageError, match=f"MixUp and CutMix mix 1 classes, and the dataset has {classes}"):
        batches(packed, [*STEPS, MixUp(num_classes=1)])
    more = batches(packed, [*STEPS, MixUp(num_classes=classes + 3)])
    assert more[0][1].shape == (32, classes + 3)
    image = shardpack.Dataset(packed)[0].bytes
    rows = [{"image": image, "label": number} for number in (0, 3)]
    shardpack.pack(rows, tmp_path / "numbers", columns={"image": "jpeg", "label": "class"})
    assert batches(tmp_path / "numbers", [*STEPS, MixUp()])[0][1].shape == (2, 4)
    shardpack.pack([{"image": image}], tmp_path / "none", columns={"image": "jpeg"})
    with pytest.raises(shardpack.UsageError, match="no names of classes(.|\\n)*gives the number of classes"):
        batches(tmp_path / "none", [*STEPS, MixUp()])
    with pytest.raises(shardpack.DataError, match="no label, and MixUp and CutMix mix 3 classes"):
        batches(tmp_path / "none", [*STEPS, CutMix(num_classes=3)])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"transform": [[*STEPS, MixUp()], STEPS]}, "one view, and there are several"),
        ({"transform": [*STEPS, MixUp()], "after": lambda item: item.crop}, "mix whole batches"),
        ({"transform": [*STEPS, CutMix()], "collate_fn": list}, "mix whole batches"),
        ({"transform": [*STEPS, MixUp(), CutMix()]}, "CutMix comes too late"),
        ({"transform": [*STEPS, MixUp(), RandomErasing()]}, "RandomErasing comes too late"),
        ({"transform": [*STEPS, MixUp(0)]}, "MixUp: alpha=0"),
        ({"transform": [*STEPS, MixUp(-1)]}, "alpha=-1"),
        ({"transform": [*STEPS, CutMix(101)]}, "CutMix: alpha=101"),
        ({"transform": [*STEPS, MixUp(float("nan"))]}, "alpha=nan"),
        ({"transform": [*STEPS, RandomErasing(value=np.zeros(2))]}, "RandomErasing: value="),
        ({"transform": [*STEPS, MixUp(num_classes=0)]}, "num_classes=0"),
        ({"transform": [*STEPS, RandomChoice([])]}, "a list of MixUp and CutMix"),
        ({"transform": [*STEPS, RandomChoice([RandomErasing()])]}, "neither MixUp nor CutMix"),
        ({"transform": [*STEPS, RandomChoice([MixUp(), CutMix()], p=[0.7, 0.7])]}, "at most 1"),
        ({"transform": [*STEPS, RandomChoice([MixUp(num_classes=9), CutMix()])]}, "different num_classes"),
        ({"transform": [*STEPS, transforms.Mixing()]}, "is no native transform"),
        ({"transform": [Pad(3), RandomResizedCrop(8)]}, "Pad before a crop"),
        ({"transform": [Pad(3)]}, "images of a batch need one size"),
        ({"transform": [Resize((8, 8)), Pad((1, 2, 3))]}, "Pad: padding="),
    ],
)
def test_wrong_options_are_refused(packed: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(shardpack.UsageError, match=says):
        shardpack.Loader(packed, 8, **options)


def test_boxes_are_not_mixed(packed: Path, tmp_path: Path) -> None:
    image = shardpack.Dataset(packed)[0].bytes
    row = {"image": image, "boxes": [[1.0, 2, 9, 9]], "label": 1}
    columns = {"image": "jpeg", "boxes": "float32[n,4]", "label": "class"}
    shardpack.pack([row] * 4, tmp_path / "boxed", columns=columns)
    options: dict[str, Any] = {"transform": [*STEPS, MixUp(num_classes=2)], "components": ["boxes.npy"]}
    with pytest.raises(shardpack.UsageError, match="components are not mixed"):
        shardpack.Loader(tmp_path / "boxed", 4, **options)
    (batch,) = shardpack.Loader(tmp_path / "boxed", 4, output="numpy", roles={"boxes": None}, **options)
    assert np.array_equal(batch["boxes.npy"][0], row["boxes"]) and batch["label"].shape == (4, 2)


def test_classes_of_a_sample_are_not_mixed(packed: Path, tmp_path: Path) -> None:
    lines = [f"{name},{number % 3},{tags}" for number, (name, tags) in enumerate(pictures(packed, tmp_path))]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,tags", *lines]) + "\n")
    shardpack.pack(tmp_path / "list.csv", tmp_path / "tagged", multi_label="tags:|")
    options: dict[str, Any] = {"transform": [*STEPS, MixUp()], "components": ["multi_hot.npy"], "output": "numpy"}
    with pytest.raises(shardpack.UsageError, match=r"multi_hot\.npy: MixUp and CutMix"):
        shardpack.Loader(tmp_path / "tagged", 4, **options)
    (batch,) = shardpack.Loader(tmp_path / "tagged", 4, roles={"multi_hot": None}, **options)
    assert set(np.unique(batch["multi_hot.npy"])) == {0, 1}


def pictures(packed: Path, folder: Path) -> list[tuple[str, str]]:
    """Four files in a folder, each with tags."""
    found = []
    for number in range(4):
        (folder / f"{number}.jpg").write_bytes(shardpack.Dataset(packed)[number].bytes)
        found.append((f"{number}.jpg", ["a", "b", "a|b", "c"][number]))
    return found


def test_samples_without_a_label_are_bad_samples(packed: Path, tmp_path: Path) -> None:
    image = shardpack.Dataset(packed)[0].bytes
    shardpack.pack([{"image": image}], tmp_path / "none", columns={"image": "jpeg"})
    parts = [shardpack.Part(packed, range=range(30)), shardpack.Part(tmp_path / "none")]
    options: dict[str, Any] = {"transform": [*STEPS, MixUp()], "output": "numpy"}
    with pytest.raises(shardpack.DataError, match="no label, and MixUp and CutMix mix"):
        list(shardpack.Loader(parts, 8, **options))
    loader = shardpack.Loader(parts, 8, on_bad="skip", **options)
    assert sum(len(batch[1]) for batch in loader) == 30
    (skipped,) = loader.receipt().skipped
    assert "no label" in str(skipped)


def test_padding_is_black_around_the_image(packed: Path) -> None:
    inner = batches(packed, [Resize((20, 24))])
    for padding, (left, top, right, bottom) in (
        (3, (3, 3, 3, 3)),
        ((1, 2), (1, 2, 1, 2)),
        ((0, 30, 5, 1), (0, 30, 5, 1)),
    ):
        for before, after in zip(inner, batches(packed, [Resize((20, 24)), Pad(padding)])):
            sides = ((0, 0), (0, 0), (top, bottom), (left, right))
            assert np.array_equal(after[0], np.pad(before[0], sides))
    one = batches(packed, [Resize((20, 24)), Pad((1, 2)), RandomCrop(20, padding=3)])
    other = batches(packed, [Resize((20, 24)), RandomCrop(20, padding=(4, 5))])
    assert all(np.array_equal(before[0], after[0]) for before, after in zip(one, other))
