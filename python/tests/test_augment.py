"""Native augmentation: the same pixels as torchvision's functions on uint8 tensors, drawn by seed, epoch and sample."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from shardpack import _native, transforms
from shardpack.transforms import (
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    Normalize,
    Pipeline,
    RandAugment,
    RandomAdjustSharpness,
    RandomApply,
    RandomAutocontrast,
    RandomCrop,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomPosterize,
    RandomResizedCrop,
    RandomSolarize,
    RandomVerticalFlip,
    Resize,
    TrivialAugmentWide,
)

FACTORS = [0.0, 0.3, 0.5, 1.2, 1.7, 3.0, 10.0]
HUES = [-0.5, -0.3, -0.1, 0.02, 0.1, 1 / 6, 0.25, 1 / 3, 0.5]
KERNELS = [(3, 3), (9, 9), (23, 23), (5, 11), (1, 7)]

#: Steps with fixed parameters, the function of torchvision and its arguments.
FIXED: list[tuple[Any, str, dict[str, Any]]] = [
    *[(ColorJitter(brightness=(one, one)), "adjust_brightness", {"brightness_factor": one}) for one in FACTORS],
    *[(ColorJitter(contrast=(one, one)), "adjust_contrast", {"contrast_factor": one}) for one in FACTORS],
    *[(ColorJitter(saturation=(one, one)), "adjust_saturation", {"saturation_factor": one}) for one in FACTORS],
    *[(ColorJitter(hue=(one, one)), "adjust_hue", {"hue_factor": one}) for one in HUES],
    *[(RandomAdjustSharpness(one, 1), "adjust_sharpness", {"sharpness_factor": one}) for one in FACTORS],
    *[
        (GaussianBlur(kernel, sigma), "gaussian_blur", {"kernel_size": list(kernel), "sigma": [sigma]})
        for kernel in KERNELS
        for sigma in (0.1, 0.5, 1.0, 2.0, 20.0)
    ],
    *[(RandomSolarize(one, 1), "solarize", {"threshold": one}) for one in (0, 0.5, 128, 200.5, 255)],
    *[(RandomPosterize(bits, 1), "posterize", {"bits": bits}) for bits in range(9)],
    (RandomGrayscale(1), "rgb_to_grayscale", {"num_output_channels": 3}),
    (RandomInvert(1), "invert", {}),
    (RandomAutocontrast(1), "autocontrast", {}),
    (RandomEqualize(1), "equalize", {}),
]


def images(height: int, width: int) -> np.ndarray:
    """Noise, a gradient, an image of few levels, and one of one level, `[4, H, W, 3] uint8`."""
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    down, right = np.mgrid[:height, :width]
    gradient = np.stack([down * 255 / height, right * 255 / width, (down + right) % 256], -1).astype(np.uint8)
    return np.stack([noise, gradient, 100 + noise // 16, np.full_like(noise, 255)])


def augmented(steps: Any, pixels: np.ndarray, key: int = 0) -> tuple[np.ndarray, list[list[str]]]:
    """The pixels after the steps, and the adjustments of each image."""
    pipeline = json.dumps(Pipeline([CenterCrop(pixels.shape[1:3]), *steps])._request)
    alpha = np.concatenate([pixels, np.zeros_like(pixels[..., :1])], -1)
    made, drawn = _native.augment(alpha.tobytes(), pipeline, key)
    return np.asarray(made)[..., :3], drawn


def by_torchvision(name: str, arguments: dict[str, Any], pixels: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    from torchvision.transforms.v2 import functional

    tensors = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    made = torch.stack([getattr(functional, name)(one, **arguments) for one in tensors])
    return made.numpy().transpose(0, 2, 3, 1)


def apart(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.abs(one.astype(np.int16) - other.astype(np.int16))


@pytest.mark.parametrize(("step", "name", "arguments"), FIXED, ids=str)
def test_pixels_are_those_of_torchvision(step: Any, name: str, arguments: dict[str, Any]) -> None:
    for size in ((64, 64), (37, 53), (24, 40)):
        pixels = images(*size)
        made, drawn = augmented([step], pixels)
        assert all(len(each) == 1 for each in drawn) or arguments.get("brightness_factor") == 1
        differences = apart(made, by_torchvision(name, arguments, pixels))
        assert differences.max() <= 1, (size, differences.max())
        assert (differences > 0).mean() < 0.01, (size, (differences > 0).mean())


#: How torchvision makes each adjustment of a policy.
MOVES = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
POLICY: dict[str, Any] = {
    "Brightness": lambda by: ("adjust_brightness", {"brightness_factor": by}),
    "Contrast": lambda by: ("adjust_contrast", {"contrast_factor": by}),
    "Saturation": lambda by: ("adjust_saturation", {"saturation_factor": by}),
    "Sharpness": lambda by: ("adjust_sharpness", {"sharpness_factor": by}),
    "Solarize": lambda by: ("solarize", {"threshold": by}),
    "Posterize": lambda by: ("posterize", {"bits": int(by)}),
    "Autocontrast": lambda: ("autocontrast", {}),
    "Equalize": lambda: ("equalize", {}),
    "Rotate": lambda by: ("rotate", {"angle": by}),
    "TranslateX": lambda by: ("affine", {**MOVES, "translate": [int(by), 0]}),
    "TranslateY": lambda by: ("affine", {**MOVES, "translate": [0, int(by)]}),
    "ShearX": lambda by: ("affine", {**MOVES, "shear": [math.degrees(math.atan(by)), 0.0], "center": [0, 0]}),
    "ShearY": lambda by: ("affine", {**MOVES, "shear": [0.0, math.degrees(math.atan(by))], "center": [0, 0]}),
}


@pytest.mark.parametrize("step", [RandAugment(1, 9), RandAugment(1, 30), TrivialAugmentWide()], ids=str)
def test_policies_are_made_of_the_functions_of_torchvision(step: Any) -> None:
    pixels = images(48, 61)[:1]
    seen = set()
    for key in range(150):
        made, [drawn] = augmented([step], pixels, key)
        expected = pixels
        for adjustment in drawn:
            name, *by = re.findall(r"^\w+|-?\d[\d.e-]*", adjustment)
            seen.add(name)
            expected = by_torchvision(*POLICY[name](*map(float, by)), expected)
        # Where a position lies in the middle of two pixels, the CPU of torch decides.
        assert (apart(made, expected) > 1).mean() <= (0.005 if name.startswith("Shear") else 0), drawn
    assert seen == set(POLICY)


def test_magnitudes_and_kinds_are_those_of_torchvision() -> None:
    torchvision = pytest.importorskip("torchvision.transforms.v2")
    pixels = images(48, 61)[:1]
    for step, own in (
        (RandAugment(3, 7, 20), torchvision.RandAugment),
        (TrivialAugmentWide(), torchvision.TrivialAugmentWide),
    ):
        # The table also has the identity.
        assert set(own._AUGMENTATION_SPACE) - {"Identity"} == {
            {"Saturation": "Color", "Autocontrast": "AutoContrast"}.get(name, name) for name in POLICY
        }
        bins = step.num_magnitude_bins
        for key in range(200):
            for adjustment in augmented([step], pixels, key)[1][0]:
                name, *by = re.findall(r"^\w+|-?\d[\d.e-]*", adjustment)
                name = {"Saturation": "Color", "Autocontrast": "AutoContrast"}.get(name, name)
                magnitudes = own._AUGMENTATION_SPACE[name][0](bins, 48, 61)
                if magnitudes is None:
                    assert not by
                    continue
                if isinstance(step, RandAugment):
                    magnitudes = magnitudes[step.magnitude : step.magnitude + 1]
                wanted = {float(one) for one in magnitudes} | {-float(one) for one in magnitudes}
                if name in ("Brightness", "Color", "Contrast", "Sharpness"):
                    wanted = {1 + one for one in wanted}
                elif name == "Solarize":
                    wanted = {255 * one for one in wanted}
                elif name.startswith("Translate"):
                    wanted = {int(one) for one in wanted}
                assert min(abs(float(by[0]) - one) for one in wanted) < 1e-4, (adjustment, wanted)


def test_steps_are_drawn_with_their_probability_and_in_any_order() -> None:
    pixels = np.repeat(images(8, 8)[:1], 2000, axis=0)
    steps = [RandomApply([ColorJitter(0.4, 0.4), RandomInvert(1)], p=0.3), RandomGrayscale(0.2), GaussianBlur(3)]
    drawn = augmented(steps, pixels)[1]
    assert 500 < sum("Invert" in each for each in drawn) < 700
    assert 330 < sum("Grayscale" in each for each in drawn) < 470
    assert all(each[-1].startswith("GaussianBlur") for each in drawn)
    first = [each[0].split("(")[0] for each in drawn if "Invert" in each]
    assert 0.4 < first.count("Brightness") / len(first) < 0.6 and set(first) == {"Brightness", "Contrast"}
    assert drawn == augmented(steps, pixels)[1] != augmented(steps, pixels, 1)[1]
    assert augmented([ColorJitter(), ColorJitter(0, (1, 1), 0, 0)], pixels[:1])[1] == [[]]


def epoch(packed: Path, steps: Any, **options: Any) -> tuple[np.ndarray, Any]:
    batch = next(iter(shardpack.Loader(packed, 100, transform=steps, output="numpy", seed=3, **options)))
    return batch[0], batch


def test_crops_with_padding_and_flips_are_parts_of_the_padded_images(packed: Path) -> None:
    steps = [Resize((24, 30)), RandomCrop((20, 25), padding=(3, 4, 5, 6))]
    plain, _ = epoch(packed, [Resize((24, 30))])
    flips = [RandomVerticalFlip(), RandomHorizontalFlip()]
    made, batch = epoch(packed, [*steps, *flips])
    cropped = batch.boxes_cropped
    padded = np.pad(plain, [(0, 0), (0, 0), (4, 6), (3, 5)])
    assert 20 < cropped.vertical_flips.sum() < 80 and 20 < cropped.flips.sum() < 80
    for at, image in enumerate(made):
        image = image[:, ::-1] if cropped.vertical_flips[at] else image
        image = image[:, :, ::-1] if cropped.flips[at] else image
        places = [(top, left) for top in range(15) for left in range(14)]
        crops = (padded[at, :, top : top + 20, left : left + 25] for top, left in places)
        # A resize of a part rounds positions to doubles.
        assert min(apart(image, crop).max() for crop in crops) <= 1


def test_boxes_follow_vertical_flips_and_not_policies(packed: Path) -> None:
    _, batch = epoch(packed, [Resize((40, 60)), RandomVerticalFlip(1.0)])
    boxes = [np.array([[0, 0, 1e6, 7]], np.float32)] * 100
    moved, points = (
        batch.boxes_cropped.move_boxes(boxes)[0],
        batch.boxes_cropped.move_points([one[:, :2] for one in boxes]),
    )
    assert (np.asarray(moved.values)[:, 3] == 40).all() and (np.asarray(moved.values)[:, 2] == 60).all()
    assert (np.asarray(points.values) == [0, 40]).all()
    _, batch = epoch(packed, [Resize((40, 60)), RandAugment()])
    assert batch.boxes_cropped is None


def test_batches_do_not_depend_on_threads_and_change_with_the_epoch(packed: Path) -> None:
    steps = [
        RandomResizedCrop(32),
        RandomHorizontalFlip(),
        RandomApply([ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        RandomGrayscale(0.2),
        RandomApply([GaussianBlur(5)]),
        TrivialAugmentWide(),
        Normalize(),
        RandomErasing(),
    ]
    one, three = (epoch(packed, steps, threads=threads)[0] for threads in (1, 3))
    assert one.dtype == np.float32 and (one == three).all()
    loader = shardpack.Loader(packed, 100, transform=steps, output="numpy", shuffle=False)
    assert not (next(iter(loader))[0] == next(iter(loader))[0]).all()


def test_erasing_writes_the_numbers_of_the_output(packed: Path) -> None:
    erasing = RandomErasing(1.0, scale=(0.1, 0.2), ratio=(0.5, 2.0), value=(0.25, 0, -7))
    steps = [Resize((40, 60)), Normalize()]
    for dtype, layout in (("float32", "CHW"), ("float16", "HWC")):
        before, _ = epoch(packed, Pipeline(steps, dtype=dtype, layout=layout))
        after, _ = epoch(packed, Pipeline([*steps, erasing], dtype=dtype, layout=layout))
        if layout == "CHW":
            before, after = before.transpose(0, 2, 3, 1), after.transpose(0, 2, 3, 1)
        for one, other in zip(before, after):
            changed = (one != other).any(-1)
            assert (other[changed] == np.array([0.25, 0, -7], dtype)).all()
            down, right = np.nonzero(changed)
            height, width = np.ptp(down) + 1, np.ptp(right) + 1
            assert changed.sum() == height * width and 0.08 < changed.mean() < 0.23
    levels, _ = epoch(packed, [Resize((40, 60)), RandomErasing(1.0, value=255)])
    assert (levels == 255).all(1).any((1, 2)).all()
    before, _ = epoch(packed, steps)
    after, _ = epoch(packed, [*steps, RandomErasing(1.0, value="random")])
    noise = after[before != after]
    assert len(noise) > 10_000 and abs(noise.mean()) < 0.05 and abs(noise.var() - 1) < 0.05


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([CenterCrop(8), ColorJitter(0.1), RandomHorizontalFlip()], "RandomHorizontalFlip comes too late"),
        ([CenterCrop(8), Normalize(), RandomGrayscale()], "RandomGrayscale comes too late"),
        ([CenterCrop(8), RandomErasing(), Normalize()], "Normalize comes too late"),
        ([CenterCrop(8), RandomErasing(), RandomErasing()], "RandomErasing comes too late"),
        ([CenterCrop(8), RandomVerticalFlip(), RandomVerticalFlip()], "RandomVerticalFlip comes too late"),
        ([RandomCrop(8), CenterCrop(8)], "CenterCrop comes too late"),
        ([RandomCrop(8, padding=8)], "padding: less than the size"),
        ([RandomCrop(8, padding=(1, 2, 3))], "padding=.*one number, two or four"),
        ([CenterCrop(8), RandomVerticalFlip(2)], "RandomVerticalFlip: p=2"),
        ([CenterCrop(8), RandomApply([RandomErasing()])], "RandomApply: .* is no step between"),
        ([CenterCrop(8), RandomApply(RandomGrayscale())], "a list of steps"),
        ([CenterCrop(8), RandomApply([], 1.5)], "RandomApply: p=1.5"),
        ([CenterCrop(8), transforms.Augmentation()], "is no native transform"),
        ([CenterCrop(8), ColorJitter(-1)], "ColorJitter: brightness=-1"),
        ([CenterCrop(8), ColorJitter(hue=0.6)], "ColorJitter: hue="),
        ([CenterCrop(8), ColorJitter(contrast=(2, 1))], "ColorJitter: contrast="),
        ([CenterCrop(8), ColorJitter(saturation="much")], "ColorJitter: saturation='much'"),
        ([CenterCrop(8), GaussianBlur(4)], "kernel_size=4: odd"),
        ([CenterCrop(8), GaussianBlur(17)], "a kernel of 17 × 17"),
        ([CenterCrop(8), GaussianBlur(3, 0)], "sigma=0"),
        ([CenterCrop(8), RandomSolarize(256)], "threshold=256"),
        ([CenterCrop(8), RandomPosterize(9)], "bits=9"),
        ([CenterCrop(8), RandomAdjustSharpness(-1)], "sharpness_factor=-1"),
        ([CenterCrop(8), RandAugment(magnitude=31)], "magnitude=31"),
        ([CenterCrop(8), RandAugment(num_magnitude_bins=1)], "num_magnitude_bins=1"),
        ([CenterCrop(8), TrivialAugmentWide(0)], "num_magnitude_bins=0"),
        ([CenterCrop(8), RandomErasing(value="random")], "random numbers need floats"),
        ([CenterCrop(8), RandomErasing(value="noise")], "RandomErasing: value="),
        ([CenterCrop(8), RandomErasing(value=0.5)], "the value 0.5"),
        ([CenterCrop(8), RandomErasing(scale=(0.5, 0.1))], "erasing: scale"),
    ],
)
def test_wrong_steps_are_named(packed: Path, steps: Any, says: str) -> None:
    with pytest.raises(shardpack.UsageError, match=says):
        shardpack.Loader(packed, 4, transform=steps)


def test_images_smaller_than_a_random_crop_are_bad_samples(packed: Path) -> None:
    with pytest.raises(shardpack.DataError, match="less than RandomCrop takes; pad_if_needed"):
        epoch(packed, [Resize((16, 16)), RandomCrop(20)])
    made, _ = epoch(packed, [Resize((16, 16)), RandomCrop(20, pad_if_needed=True)])
    assert made.shape == (100, 3, 20, 20)
