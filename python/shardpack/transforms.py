"""Native image transforms, with the names, arguments and defaults of torchvision.

    from shardpack.transforms import RandomHorizontalFlip, RandomResizedCrop

    loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(224), RandomHorizontalFlip()])

Order of the steps: `Resize`, then `Pad`, then `CenterCrop`, `RandomCrop` or `RandomResizedCrop`, then flips, then any
augmentations in the given order (`ColorJitter`, `RandomApply`, `RandAugment` and others), then `Normalize`, then
`RandomErasing`, then `MixUp`, `CutMix`, or `RandomChoice` of both.
For other transforms, use `sample_transform` of the loader. `Loader` and `Pipeline` check the values and raise
`UsageError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ._options import choice, flag, number, numbers, whole
from ._sizes import shown
from ._steps import (
    Augmentation,
    ColorJitter,
    CutMix,
    GaussianBlur,
    Mixing,
    MixUp,
    RandAugment,
    RandomAdjustSharpness,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomEqualize,
    RandomErasing,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    Step,
    TrivialAugmentWide,
)
from .errors import UsageError

__all__ = [
    "Augmentation",
    "CenterCrop",
    "ColorJitter",
    "CutMix",
    "GaussianBlur",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "MixUp",
    "Mixing",
    "Normalize",
    "Pad",
    "Pipeline",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Resize",
    "Step",
    "TrivialAugmentWide",
    "imagenet_eval",
    "imagenet_train",
]

#: Means of red, green and blue over ImageNet, for levels divided by 255.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
#: Standard deviations of red, green and blue over ImageNet, for levels divided by 255.
IMAGENET_STD = (0.229, 0.224, 0.225)

#: Side in pixels, or height and width.
Size = Union[int, Sequence[int]]


#: Sides are below this.
_SIDE_END = 65_536

_FILTERS = ("bilinear", "bicubic")
_DTYPES = ("uint8", "float32", "float16", "bfloat16")


def _side(size: Any, name: str) -> int | list[int]:
    """A side, or height and width."""
    if isinstance(size, (list, tuple)):
        if len(size) != 2:
            raise UsageError(f"{name}={shown(size)}: a side in pixels, or height and width")
        return [whole(one, name, 1, _SIDE_END) for one in size]
    return whole(size, name, 1, _SIDE_END)


def _both(size: Any, name: str) -> list[int]:
    found = _side(size, name)
    return found if isinstance(found, list) else [found, found]


def _dtype(dtype: Any) -> str:
    """Name of a dtype, also of numpy's and torch's."""
    if not isinstance(dtype, str):
        dtype = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).removeprefix("torch.")
    return choice(dtype, "dtype", _DTYPES)


@dataclass(frozen=True)
class RandomResizedCrop(Step):
    """Crop a box of random area and aspect ratio, and resize it.

    Args:
        size: Side in pixels, or `(height, width)`; 1 to 65,535.
        scale: Smallest and largest share of the image area, above 0 and up to 1.
        ratio: Smallest and largest width divided by height, 0.001 to 1000.
        interpolation: `bilinear` or `bicubic`, both antialiased.

    Example:
        steps = [shardpack.transforms.RandomResizedCrop(160, scale=(0.25, 1.0))]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class Resize(Step):
    """Resize the shorter side to `size` and keep the aspect ratio, or resize to `(height, width)`.

    Args:
        size: Pixels of the shorter side, or `(height, width)`; 1 to 65,535.
        interpolation: `bilinear` or `bicubic`, both antialiased.

    Example:
        loader = shardpack.Loader("packed", 64, transform=[shardpack.transforms.Resize((224, 224))])
    """

    size: Size
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class Pad(Step):
    """Add black around the image, after `Resize` and before `RandomCrop` or no crop.

    Args:
        padding: Pixels on each side; or `(left and right, top and bottom)`, or `(left, top, right, bottom)`.

    Example:
        steps = [shardpack.transforms.Resize((56, 56)), shardpack.transforms.Pad((4, 2, 0, 2))]
        images, labels = next(iter(shardpack.Loader("packed", 64, transform=steps)))
        print(tuple(images.shape))  # (64, 3, 60, 60)
    """

    padding: Union[int, Sequence[int]]


@dataclass(frozen=True)
class CenterCrop(Step):
    """Crop the centre; smaller images are padded with black.

    Args:
        size: Side in pixels, or `(height, width)`; 1 to 65,535.

    Example:
        steps = [shardpack.transforms.Resize(256), shardpack.transforms.CenterCrop(224)]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    size: Size


@dataclass(frozen=True)
class RandomCrop(Step):
    """Crop a random part of fixed size, of the image with black around it.

    Args:
        size: Side in pixels, or `(height, width)`; 1 to 65,535.
        padding: Black pixels on each side; or `(left and right, top and bottom)`, or `(left, top, right, bottom)`. Less
            than `size`.
        pad_if_needed: Pad smaller images further, on both sides by what is missing. Otherwise they are bad samples.

    Example:
        steps = [shardpack.transforms.Resize((32, 32)), shardpack.transforms.RandomCrop(32, padding=4)]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    size: Size
    padding: Union[int, Sequence[int], None] = None
    pad_if_needed: bool = False


@dataclass(frozen=True)
class RandomHorizontalFlip(Step):
    """Flip the image left to right at random.

    Args:
        p: Probability of a flip, 0 to 1.

    Example:
        steps = [shardpack.transforms.CenterCrop(224), shardpack.transforms.RandomHorizontalFlip()]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    p: float = 0.5


@dataclass(frozen=True)
class RandomVerticalFlip(Step):
    """Flip the image top to bottom at random.

    Args:
        p: Probability of a flip, 0 to 1.

    Example:
        steps = [shardpack.transforms.CenterCrop(224), shardpack.transforms.RandomVerticalFlip()]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    p: float = 0.5


@dataclass(frozen=True)
class Normalize(Step):
    """Normalize each channel: `(level / 255 - mean) / std`, in float32 or the `dtype` of the pipeline.

    Args:
        mean: Means of red, green and blue, for levels divided by 255.
        std: Standard deviations of red, green and blue, above 0.

    Example:
        steps = [shardpack.transforms.CenterCrop(224), shardpack.transforms.Normalize()]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    mean: Sequence[float] = IMAGENET_MEAN
    std: Sequence[float] = IMAGENET_STD


@dataclass(frozen=True)
class Pipeline:
    """Steps with the dtype and layout of the images.

    Args:
        steps: Steps in the order given by the module; one must fix the size.
        dtype: `uint8`, `float32`, `float16` or `bfloat16`, also as a dtype of numpy or torch. `None`: float32 with
            `Normalize`, else uint8. Floats are `level / 255`.
        layout: `CHW` for `[B, 3, H, W]`, or `HWC` for `[B, H, W, 3]`.
        reduce: Decode large JPEGs to 1/2, 1/4 or 1/8 of their size if enough pixels remain.
        upright: Rotate images by their Exif orientation before all other steps; torchvision does not.

    Raises:
        UsageError: If a step is unknown or out of order, a value is invalid, or the size of the images is not fixed.

    Example:
        steps = [shardpack.transforms.RandomResizedCrop(160), shardpack.transforms.Normalize()]
        pipeline = shardpack.transforms.Pipeline(steps, dtype="float16", layout="HWC")
        images, labels = next(iter(shardpack.Loader("packed", 64, transform=pipeline)))
        print(tuple(images.shape))  # (64, 160, 160, 3)
    """

    steps: Sequence[Step]
    dtype: str | None = None
    layout: str = "CHW"
    reduce: bool = True
    upright: bool = False
    _request: dict[str, Any] = field(init=False, repr=False, compare=False)
    #: Number of classes of mixed labels, or 0; `None` if images are not mixed.
    _mixed_classes: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found, operations = _in_order(self.steps)
        mixing = next((step for step in found.values() if isinstance(step, Mixing)), None)
        object.__setattr__(self, "_request", self._read(found, operations, mixing))
        object.__setattr__(self, "_mixed_classes", None if mixing is None else mixing._classes)

    def _read(self, found: dict[type, Any], operations: list[Augmentation], mixing: Mixing | None) -> dict[str, Any]:
        normalise, erasing = found.get(Normalize), found.get(RandomErasing)
        dtype = ("uint8" if normalise is None else "float32") if self.dtype is None else _dtype(self.dtype)
        by = found.get(RandomResizedCrop) or found.get(Resize) or Resize(1)
        flips = {}
        for name, kind in (("flip", RandomHorizontalFlip), ("flip_vertical", RandomVerticalFlip)):
            flip = found.get(kind)
            flips[name] = 0.0 if flip is None else number(flip.p, f"{kind.__name__}: p", 0.0, 1.0)
        return {
            "cut": _cut(found),
            "filter": choice(by.interpolation, f"{type(by).__name__}: interpolation", _FILTERS),
            **flips,
            "operations": [step._request() for step in operations],
            "erasing": None if erasing is None else erasing._request(),
            "mixing": [] if mixing is None else mixing._request(),
            "axes": choice(self.layout, "layout", ("CHW", "HWC")),
            "dtype": dtype,
            "normalise": None
            if normalise is None
            else [numbers(normalise.mean, "Normalize: mean", 3), numbers(normalise.std, "Normalize: std", 3, 0.0)],
            "reduce": flag(self.reduce, "reduce"),
            "upright": flag(self.upright, "upright"),
        }


#: Steps in their order.
_ORDER: Sequence[tuple[type[Step], ...]] = (
    (Resize,),
    (Pad,),
    (CenterCrop, RandomCrop, RandomResizedCrop),
    (RandomHorizontalFlip, RandomVerticalFlip),
    (Augmentation,),
    (Normalize,),
    (RandomErasing,),
    (MixUp, CutMix, RandomChoice),
)


def _in_order(steps: Any) -> tuple[dict[type, Any], list[Augmentation]]:
    """The steps by their class, and the augmentations."""
    if not isinstance(steps, (list, tuple)):
        raise UsageError(f"steps={shown(steps)}: a list of steps of shardpack.transforms is wanted")
    found: dict[type, Any] = {}
    operations: list[Augmentation] = []
    at = 0
    for step in steps:
        place = next((number for number, kinds in enumerate(_ORDER) if isinstance(step, kinds)), None)
        if place is None:
            raise UsageError(f"{shown(step)} is no native transform", help="sample_transform takes any function")
        if place < at or type(step) in found:
            raise UsageError(
                f"{type(step).__name__} comes too late",
                help="Resize, Pad, a crop, flips, augmentations such as ColorJitter, Normalize, RandomErasing, and one of MixUp, "
                "CutMix and RandomChoice, in this order",
            )
        if isinstance(step, Augmentation):
            operations.append(step)
            at = place
        else:
            found[type(step)] = step
            # One crop, but both flips.
            at = place if _ORDER[place][0] is RandomHorizontalFlip else place + 1
    return found, operations


def _cut(found: dict[type, Any]) -> dict[str, Any]:
    """The request for the crop."""
    resize, center, random = found.get(Resize), found.get(CenterCrop), found.get(RandomResizedCrop)
    pad = found.get(Pad)
    if pad is not None and (center is not None or random is not None):
        raise UsageError("Pad before a crop that is not RandomCrop", help="leave Pad out")
    around = [0] * 4 if pad is None else _padding(pad.padding, "Pad: padding")
    if random is not None:
        if resize is not None:
            raise UsageError("Resize before RandomResizedCrop changes pixels twice", help="leave Resize out")
        return {
            "random_resized": {
                "size": _both(random.size, "RandomResizedCrop: size"),
                "scale": numbers(random.scale, "RandomResizedCrop: scale", 2, 0.0),
                "ratio": numbers(random.ratio, "RandomResizedCrop: ratio", 2, 0.0),
            }
        }
    how: Any = "not"
    if resize is not None:
        side = _side(resize.size, "Resize: size")
        how = {"exact": side} if isinstance(side, list) else {"short": side}
    if center is not None:
        return {"center": {"resize": how, "size": _both(center.size, "CenterCrop: size")}}
    crop = found.get(RandomCrop)
    if crop is not None:
        return {
            "random": {
                "resize": how,
                "size": _both(crop.size, "RandomCrop: size"),
                "padding": [sum(sides) for sides in zip(around, _padding(crop.padding, "RandomCrop: padding"))],
                "pad_if_needed": flag(crop.pad_if_needed, "RandomCrop: pad_if_needed"),
            }
        }
    if "exact" not in how:
        raise UsageError(
            "images of a batch need one size",
            help="Resize((height, width)), CenterCrop(size), RandomCrop(size) or RandomResizedCrop(size)",
        )
    height, width = how["exact"]
    if any(around):
        # A crop of the size of the padded image has one place.
        left, top, right, bottom = around
        size = [height + top + bottom, width + left + right]
        return {"random": {"resize": how, "size": size, "padding": around, "pad_if_needed": False}}
    return {"whole": [height, width]}


def _padding(padding: Any, name: str) -> list[int]:
    """Pixels left, above, right and below, as torchvision reads them."""
    sides = list(padding) if isinstance(padding, (list, tuple)) else [0 if padding is None else padding]
    if len(sides) not in (1, 2, 4):
        raise UsageError(f"{name}={shown(padding)}: one number, two or four are wanted")
    sides = [whole(side, name, 0, _SIDE_END) for side in sides]
    return (sides * 4)[:4]


def imagenet_train(size: int = 224, *, dtype: str | None = None, layout: str = "CHW") -> Pipeline:
    """Return the usual transform for training on ImageNet: random crop and flip.

    Args:
        size: Side of the images in pixels.
        dtype: `None` or `uint8`, or a float type to normalize with `IMAGENET_MEAN` and `IMAGENET_STD`.
        layout: `CHW` or `HWC`.

    Returns:
        The pipeline; `transform="train"` is `imagenet_train()`.

    Example:
        transform = shardpack.transforms.imagenet_train(160, dtype="float32")
        loader = shardpack.Loader("packed", 64, transform=transform)
    """
    steps: list[Step] = [RandomResizedCrop(size), RandomHorizontalFlip()]
    if dtype not in (None, "uint8"):
        steps.append(Normalize())
    return Pipeline(steps, dtype=dtype, layout=layout)


def imagenet_eval(
    size: int = 224, resize: int | None = None, *, dtype: str | None = None, layout: str = "CHW"
) -> Pipeline:
    """Return the usual transform for evaluation on ImageNet: resize and centre crop.

    Args:
        size: Side of the images in pixels.
        resize: Shorter side before the crop, in pixels. `None`: 8/7 of `size`.
        dtype: `None` or `uint8`, or a float type to normalize with `IMAGENET_MEAN` and `IMAGENET_STD`.
        layout: `CHW` or `HWC`.

    Returns:
        The pipeline; `transform="eval"` is `imagenet_eval()`.

    Example:
        transform = shardpack.transforms.imagenet_eval(160)
        loader = shardpack.Loader("packed", 64, transform=transform, shuffle=False)
    """
    whole(size, "size", 1, _SIDE_END)
    steps: list[Step] = [Resize(round(size * 8 / 7) if resize is None else resize), CenterCrop(size)]
    if dtype not in (None, "uint8"):
        steps.append(Normalize())
    return Pipeline(steps, dtype=dtype, layout=layout)
