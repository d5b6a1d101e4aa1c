"""Masks, second images, boxes and points that follow the native crop of their image."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardpack
from shardpack import transforms

SIZES = [(40, 30), (31, 47), (64, 64), (25, 90)]
PIPELINES = {
    "train": [transforms.RandomResizedCrop((24, 20)), transforms.RandomHorizontalFlip()],
    "eval": [transforms.Resize(20), transforms.CenterCrop(16)],
    "whole": [transforms.Resize((30, 50)), transforms.RandomHorizontalFlip(1.0)],
    "padded": [transforms.CenterCrop((60, 70)), transforms.RandomHorizontalFlip()],
}
NAMES = ["mask.png", "depth.png", "colours.png", "second.png", "array.npy"]


def png(pixels: Any, palette: bool = False) -> bytes:
    image = Image.fromarray(pixels)
    if palette:
        image = Image.fromarray(pixels, "P")
        image.putpalette([value for index in range(256) for value in (255 - index, index, 7)])
    out = io.BytesIO()
    image.save(out, "png")
    return out.getvalue()


def parts(number: int) -> dict[str, Any]:
    """The components of a sample, not encoded."""
    width, height = SIZES[number % len(SIZES)]
    random = np.random.default_rng(number)
    corners = random.uniform(0, 1, (number % 4, 2, 2)) * [width - 6, height - 6]
    ends = np.minimum(corners[:, 0] + 5 + corners[:, 1] / 9, [width, height])
    boxes = np.concatenate([corners[:, 0], ends], axis=1).astype(np.float32)
    return {
        "image": random.integers(0, 256, (height, width, 3), np.uint8),
        "mask": random.integers(0, 21, (height, width), np.uint8),
        "depth": random.integers(0, 65_536, (height, width), np.uint16),
        "colours": random.integers(0, 256, (height, width, 3), np.uint8),
        "second": random.integers(0, 256, (height, width, 3), np.uint8),
        "array": random.normal(size=(height, width)).astype(np.float32),
        "boxes": boxes,
        "box_labels": np.arange(len(boxes), dtype=np.int64),
        "keypoints": np.pad(boxes[:, None, :2], ((0, 0), (0, 0), (0, 1)), constant_values=2.0),
    }


def rows(count: int = 32) -> Iterator[dict[str, Any]]:
    for number in range(count):
        row = parts(number)
        for name in ("image", "depth", "colours", "second"):
            row[name] = png(row[name])
        yield row | {"mask": png(row["mask"], palette=True), "number": str(number)}


COLUMNS = {"mask": ".png", "depth": ".png", "colours": ".png", "second": ".png", "boxes": "float32[n,4]"}
COLUMNS |= {
    "box_labels": "int64[n]",
    "keypoints": "float32[n,1,3]",
    "array": "float32[n,n]",
    "number": "text",
    "image": "png",
}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("roles") / "packed"
    shardpack.pack(rows(), at, columns=COLUMNS)
    return at


def cut(batch: Any, at: int, pixels: Any, size: tuple[int, int]) -> Any:
    """`pixels` through the cut of a sample by nearest neighbours, whose scale is a float32 as in torch."""
    cropped = batch.boxes_cropped
    left, top, right, bottom = cropped.boxes[at].round().astype(int)
    place = cropped.placed[at]

    def nearest(source: int, pixels: int) -> Any:
        scale = np.float32(source) / np.float32(pixels)
        return np.minimum((np.arange(pixels, dtype=np.float32) * scale).astype(int), source - 1)

    rows, columns = nearest(bottom - top, place[3] - place[1]), nearest(right - left, place[2] - place[0])
    out = np.zeros(size)
    out[place[1] : place[3], place[0] : place[2]] = pixels[top:bottom, left:right][rows[:, None], columns]
    return out[:, ::-1] if cropped.flips[at] else out


@pytest.mark.parametrize("name", ["train", "whole", "padded"])
def test_masks_are_cut_by_nearest_neighbours(scenes: Path, name: str) -> None:
    loader = shardpack.Loader(
        scenes,
        7,
        transform=PIPELINES[name],
        output="numpy",
        decode={"mask": "mask", "depth.png": "mask", "colours": "mask"},
        roles={"array": "mask"},
        components=["number.txt"],
    )
    seen = 0
    for batch in loader:
        size = batch["image"].shape[2:]
        assert batch["mask.png"].dtype == np.uint8 and batch["mask.png"].shape[1:] == size
        assert batch["depth.png"].dtype == np.uint16 and batch["array.npy"].dtype == np.float32
        assert batch["colours.png"].shape[1:] == (3, *size)
        for at, number in enumerate(map(int, batch["number.txt"])):
            own = parts(number)
            for component, column in (("mask", "mask.png"), ("depth", "depth.png"), ("array", "array.npy")):
                assert np.array_equal(
                    batch[column][at], cut(batch, at, own[component], size).astype(own[component].dtype)
                )
            for channel in range(3):
                expected = cut(batch, at, own["colours"][:, :, channel], size)
                assert np.array_equal(batch["colours.png"][at, channel], expected)
            seen += 1
    assert seen == 32


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_a_second_image_has_the_transform_of_the_first(scenes: Path, layout: str) -> None:
    for name, steps in PIPELINES.items():
        pipeline = transforms.Pipeline(steps, layout=layout)
        one = shardpack.Loader(scenes, 32, transform=pipeline, output="numpy", seed=3, decode={"second": "image"})
        batch = next(iter(one))
        assert batch["second.png"].shape == batch["image"].shape and batch["second.png"].dtype == np.uint8
        # A mask of colours without a resize is the image itself.
        if name == "padded":
            masks = shardpack.Loader(scenes, 32, transform=pipeline, output="numpy", seed=3, decode={"second": "mask"})
            assert np.array_equal(next(iter(masks))["second.png"], batch["second.png"])
    floats = transforms.Pipeline([transforms.Resize((8, 8)), transforms.Normalize()], dtype="float32")
    batch = next(iter(shardpack.Loader(scenes, 32, transform=floats, output="numpy", decode={"second": "image"})))
    assert batch["second.png"].dtype == np.float32 and batch["second.png"].min() < 0


@pytest.mark.parametrize("name", PIPELINES)
def test_boxes_labels_and_points_move_as_by_hand(scenes: Path, name: str) -> None:
    names = ["boxes.npy", "box_labels.npy", "keypoints.npy"]
    options: dict[str, Any] = {"transform": PIPELINES[name], "output": "numpy", "components": names, "seed": 5}
    stored = shardpack.Loader(scenes, 9, roles=dict.fromkeys(names), **options)
    moved = shardpack.Loader(scenes, 9, roles={"keypoints": "xy per box"}, **options)
    dropped = 0
    for by_hand, batch in zip(stored, moved):
        boxes, labels, rows = by_hand.boxes_cropped.move_boxes(*(by_hand[name] for name in names))
        assert np.array_equal(batch["boxes.npy"].values, boxes.values)
        assert np.array_equal(batch["boxes.npy"].offsets, boxes.offsets)
        assert np.array_equal(batch["box_labels.npy"].values, labels.values)
        assert batch["box_labels.npy"].values.dtype == np.int64
        points = by_hand.boxes_cropped.move_points(shardpack.Ragged(rows.values[:, 0, :2], rows.offsets))
        assert np.array_equal(batch["keypoints.npy"].values[:, 0, :2], points.values)
        assert (batch["keypoints.npy"].values[:, 0, 2] == 2).all()
        dropped += len(by_hand["boxes.npy"].values) - len(boxes.values)
        with pytest.raises(ValueError, match="already"):
            batch.boxes_cropped.move_boxes(batch["boxes.npy"])
    assert (dropped > 0) == (name != "whole")


def test_without_a_transform_files_are_decoded_at_their_size(scenes: Path) -> None:
    decode = {"mask": "mask", "depth": "mask", "second": "image"}
    loader = shardpack.Loader(scenes, 4, output="numpy", decode=decode, components=["number.txt", "boxes.npy"])
    for batch in loader:
        assert isinstance(batch["mask.png"], list)
        for at, number in enumerate(map(int, batch["number.txt"])):
            own = parts(number)
            assert np.array_equal(batch["mask.png"][at], own["mask"])
            assert np.array_equal(batch["depth.png"][at], own["depth"])
            assert np.array_equal(batch["second.png"][at], own["second"].transpose(2, 0, 1))
            assert np.array_equal(batch["boxes.npy"][at], own["boxes"])


def test_values_that_do_not_fit_are_bad_samples(tmp_path: Path) -> None:
    image = png(np.zeros((20, 30, 3), np.uint8))
    good = {"image": image, "mask": png(np.zeros((20, 30), np.uint8)), "boxes": [[1.0, 2, 9, 9]], "box_labels": [1]}
    bad = [
        ({"mask": png(np.zeros((30, 20), np.uint8))}, r"mask\.png.*20 × 30 pixels, and its image has 30 × 20"),
        ({"mask": None}, r"mask\.png.*lacks it"),
        ({"mask": b"\x89PNG\r\n\x1a\nbroken"}, r"mask\.png"),
        ({"boxes": [[1.0, 2, 1, 9]]}, r"boxes\.npy.*box 0 has no area"),
        ({"boxes": [[1.0, 2, float("nan"), 9]]}, r"boxes\.npy.*box 0 has no area"),
        ({"box_labels": [1, 2]}, r"box_labels\.npy.*2 rows, and the sample has 1 boxes"),
    ]
    columns = {"mask": ".png", "boxes": "float32[n,4]", "box_labels": "int64[n]", "image": "png"}
    for number, (change, reason) in enumerate(bad):
        at = tmp_path / str(number)
        shardpack.pack([good, good | change, good], at, columns=columns, order="source")
        options: dict[str, Any] = {"transform": PIPELINES["eval"], "output": "numpy", "shuffle": False}
        options |= {"decode": {"mask": "mask"}, "components": ["boxes.npy", "box_labels.npy"]}
        with pytest.raises(shardpack.DataError, match=reason):
            list(shardpack.Loader(at, 3, **options))
        loader = shardpack.Loader(at, 3, on_bad="skip", **options)
        (batch,) = loader
        assert len(batch["mask.png"]) == 2 and len(batch["boxes.npy"]) == 2
        assert len(loader.receipt().skipped) == 1


def test_boxes_of_a_known_name_move_or_are_refused(tmp_path: Path) -> None:
    image = png(np.zeros((40, 60, 3), np.uint8))
    row = {"image": image, "boxes": [[12, 8, 30, 20]], "box_labels": [1]}
    pipeline = [transforms.Resize((20, 20))]
    options: dict[str, Any] = {"components": ["boxes.npy", "box_labels.npy"], "output": "numpy", "transform": pipeline}
    parts = []
    for dtype in ("float32", "float64", "int64", "uint16"):
        shardpack.pack([row] * 3, tmp_path / dtype, columns={"boxes": f"{dtype}[n,4]", "box_labels": "int64[n]"})
        (batch,) = shardpack.Loader(tmp_path / dtype, 3, **options)
        assert np.allclose(batch["boxes.npy"][0], [[4, 4, 10, 10]]), dtype
        parts.append(shardpack.Part(tmp_path / dtype))
    for batch in shardpack.Loader(parts[:3:2], 6, **options):
        assert all(np.allclose(one, [[4, 4, 10, 10]]) for one in batch["boxes.npy"])
    for several in ([[*pipeline, transforms.RandAugment()], pipeline], [*pipeline, transforms.RandAugment()]):
        with pytest.raises(shardpack.UsageError, match=r"boxes\.npy(.|\n)*None} leaves it as stored"):
            shardpack.Loader(tmp_path / "float32", 3, **options | {"transform": several})
        stored = options | {"transform": several, "roles": {"boxes.npy": None}}
        for batch in shardpack.Loader(tmp_path / "float32", 3, **stored):
            assert all(np.array_equal(one, row["boxes"]) for one in batch["boxes.npy"])
    shardpack.pack([row | {"boxes": [[0.2, 0.2, 0.5, 0.5]]}], tmp_path / "shares", columns={"boxes": "float32[n,4]"})
    with pytest.raises(shardpack.DataError, match="fractions"):
        list(shardpack.Loader(tmp_path / "shares", 1, **options))


@pytest.mark.parametrize("output", ["numpy", *["torch"] * ("torch" in sys.modules)])
def test_components_follow_each_view(scenes: Path, output: str) -> None:
    small = [transforms.Resize((24, 20))]
    views = [PIPELINES["train"], PIPELINES["train"], small]
    options: dict[str, Any] = {"output": output, "seed": 7, "decode": {"mask": "mask", "second": "image"}}
    options |= {"components": ["boxes.npy", "box_labels.npy", "number.txt"]}
    several = list(shardpack.Loader(scenes, 4, transform=views, **options))
    names = ("mask.png", "second.png", "boxes.npy", "box_labels.npy")
    for view, pipeline in ((0, PIPELINES["train"]), (2, small)):
        for alone, batch in zip(shardpack.Loader(scenes, 4, transform=pipeline, **options), several):
            assert alone["number.txt"] == batch["number.txt"]
            for name in names:
                one, other = alone[name], batch[name][view]
                assert len(one) == len(other) and all(np.array_equal(*pair) for pair in zip(one, other)), name
    stored = options | {"decode": None, "roles": {"boxes": None}, "components": ["boxes.npy"]}
    moved = 0
    for plain, batch in zip(shardpack.Loader(scenes, 4, transform=views, **stored), several):
        boxes, *_ = plain.boxes_cropped[1].move_boxes(plain["boxes.npy"])
        assert np.array_equal(np.asarray(boxes.values), np.asarray(batch["boxes.npy"][1].values))
        moved += not np.array_equal(np.asarray(batch["boxes.npy"][0].values), np.asarray(boxes.values))
        with pytest.raises(ValueError, match="already"):
            batch.boxes_cropped[1].move_boxes(batch["boxes.npy"][1])
    assert moved
    (made, *_) = shardpack.Loader(
        scenes, 4, transform=views, after=lambda item: item.components["boxes.npy"], **options
    )
    for at, item in enumerate(made["image"]):
        assert all(np.array_equal(one, view[at]) for one, view in zip(item, several[0]["boxes.npy"]))


def test_roles_that_cannot_be_are_refused(scenes: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"roles": {"nothing": "mask"}}, "no component"),
        ({"roles": {"mask": "xyxyz"}}, "xy per box"),
        ({"decode": {"boxes.npy": "xyxy"}}, "mask"),
        ({"decode": ["mask.png"]}, "dict"),
        ({"roles": {"boxes": "xyxy", "keypoints": "xyxy"}}, "only one component"),
        ({"roles": {"keypoints": "xy per box"}}, "no component has boxes"),
        ({"decode": {"mask": "mask"}, "raw": True}, "raw=True"),
    ]
    for options, reason in wrong:
        with pytest.raises(shardpack.UsageError, match=reason):
            shardpack.Loader(scenes, transform="eval", **options)
    with pytest.raises(shardpack.UsageError, match="sample_transform"):
        shardpack.Loader(scenes, sample_transform=len, decode={"mask": "mask"})


@pytest.mark.parametrize("name", PIPELINES)
def test_masks_and_boxes_are_those_of_torchvision(scenes: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional

    options: dict[str, Any] = {"components": ["boxes.npy", "box_labels.npy", "number.txt"], "output": "torch"}
    loader = shardpack.Loader(scenes, 32, transform=PIPELINES[name], decode={"mask": "mask"}, **options)
    for batch in loader:
        cropped = batch.boxes_cropped
        for at, number in enumerate(map(int, batch["number.txt"])):
            own = parts(number)
            height, width = own["mask"].shape
            boxes: Any = tv_tensors.BoundingBoxes(
                torch.from_numpy(own["boxes"]).reshape(-1, 4), format="XYXY", canvas_size=(height, width)
            )
            sample = (tv_tensors.Mask(own["mask"]), boxes)
            if name == "eval":
                sample = v2.Compose([v2.Resize(20), v2.CenterCrop(16)])(*sample)
            elif name == "padded":
                sample = v2.CenterCrop((60, 70))(*sample)
            else:
                left, top, right, bottom = (int(edge) for edge in cropped.boxes[at])
                size = [24, 20] if name == "train" else [30, 50]
                crop = (top, left, bottom - top, right - left, size)
                mask = functional.resized_crop(sample[0], *crop, interpolation=v2.InterpolationMode.NEAREST)
                sample = (mask, functional.resized_crop(boxes, *crop))
            if cropped.flips[at]:
                sample = tuple(functional.horizontal_flip(one) for one in sample)
            mask, boxes = sample
            clean = v2.SanitizeBoundingBoxes(min_size=1)(
                {"boxes": functional.clamp_bounding_boxes(boxes), "labels": torch.arange(len(boxes))}
            )
            assert torch.equal(batch["mask.png"][at], mask.as_subclass(torch.Tensor))
            if name == "padded" and (height % 2 or width % 2):
                # torchvision pads an odd margin of images and of boxes on different sides; boxes follow the pixels here.
                continue
            assert batch["box_labels.npy"][at].tolist() == clean["labels"].tolist()
            found = clean["boxes"].as_subclass(torch.Tensor)
            torch.testing.assert_close(batch["boxes.npy"][at], found, atol=2e-4, rtol=1e-5)
