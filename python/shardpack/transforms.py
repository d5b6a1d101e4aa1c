"""What is made of images, natively: decoded, cut, resized, flipped, as numbers. Names and numbers are torchvision's.

    shardpack.Loader("packed/train", 64, transform=[RandomResizedCrop(224), RandomHorizontalFlip()])

The steps come in torchvision's usual order: `Resize`, then `CenterCrop` or `RandomResizedCrop`, then
`RandomHorizontalFlip`, then `Normalize`. For anything else there is `sample_transform` of the loader, a function of yours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ._options import choice, flag, number, numbers, whole
from ._sizes import shown
from .errors import UsageError

__all__ = [
    "CenterCrop",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Normalize",
    "Pipeline",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Step",
    "imagenet_eval",
    "imagenet_train",
]

#: Means of red, green and blue that models trained on ImageNet are given, of levels divided by 255.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
#: Their standard deviations.
IMAGENET_STD = (0.229, 0.224, 0.225)

#: A side in pixels, or height and width.
Size = Union[int, Sequence[int]]


#: Sides are below it.
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
    """The name of a dtype, which may be one of numpy or torch."""
    if not isinstance(dtype, str):
        dtype = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).removeprefix("torch.")
    return choice(dtype, "dtype", _DTYPES)


class Step:
    """One of the steps below; no other class is one."""


@dataclass(frozen=True)
class RandomResizedCrop(Step):
    """A random part of random area and aspect, resized to `size`.

    Args:
        size: A side in pixels, or height and width; 1 to 65,535.
        scale: Least and greatest part of the image's area.
        ratio: Least and greatest width divided by height.
        interpolation: `bilinear` or `bicubic`, both antialiased.
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class Resize(Step):
    """The shorter side becomes `size` pixels and the longer one keeps the aspect; or exactly `(height, width)`.

    Args:
        size: Pixels of the shorter side, or height and width; 1 to 65,535.
        interpolation: `bilinear` or `bicubic`, both antialiased.
    """

    size: Size
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class CenterCrop(Step):
    """The middle; where an image is smaller, black is put around it.

    Args:
        size: A side in pixels, or height and width; 1 to 65,535.
    """

    size: Size


@dataclass(frozen=True)
class RandomHorizontalFlip(Step):
    """Left and right exchanged.

    Args:
        p: How probable that is, 0 to 1.
    """

    p: float = 0.5


@dataclass(frozen=True)
class Normalize(Step):
    """`(level / 255 - mean) / std`, for red, green and blue: makes float32, or the `dtype` of the pipeline.

    Args:
        mean: Three numbers.
        std: Three numbers above 0.
    """

    mean: Sequence[float] = IMAGENET_MEAN
    std: Sequence[float] = IMAGENET_STD


@dataclass(frozen=True)
class Pipeline:
    """Steps, and how the numbers lie.

    Args:
        steps: In torchvision's order; see the module.
        dtype: `uint8`, `float32`, `float16` or `bfloat16`; `None` for uint8, or float32 where there is a `Normalize`. Floats are
            `level / 255`.
        layout: `CHW` for `[B, 3, H, W]`, `HWC` for `[B, H, W, 3]`.
        reduce: Whether large JPEGs may be decoded to 1/2, 1/4 or 1/8 of their size, where that leaves enough pixels.
        upright: Whether images are turned as their Exif orientation says, before anything else; torchvision does not.
    """

    steps: Sequence[Step]
    dtype: str | None = None
    layout: str = "CHW"
    reduce: bool = True
    upright: bool = False
    _request: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_request", self._read())

    def _read(self) -> dict[str, Any]:
        order = [(Resize,), (CenterCrop, RandomResizedCrop), (RandomHorizontalFlip,), (Normalize,)]
        at = 0
        found: dict[type, Any] = {}
        if not isinstance(self.steps, (list, tuple)):
            raise UsageError(f"steps={shown(self.steps)}: a list of steps of shardpack.transforms is wanted")
        for step in self.steps:
            place = next((number for number, kinds in enumerate(order) if isinstance(step, kinds)), None)
            if place is None:
                raise UsageError(f"{shown(step)} is no native transform", help="sample_transform takes any function")
            if place < at:
                raise UsageError(
                    f"{type(step).__name__} comes too late",
                    help="Resize, CenterCrop or RandomResizedCrop, RandomHorizontalFlip, Normalize, in this order",
                )
            at, found[type(step)] = place + 1, step
        resize, crop, random = found.get(Resize), found.get(CenterCrop), found.get(RandomResizedCrop)
        if random is not None:
            if resize is not None:
                raise UsageError("Resize before RandomResizedCrop changes pixels twice", help="leave Resize out")
            cut: dict[str, Any] = {
                "random": {
                    "size": _both(random.size, "RandomResizedCrop: size"),
                    "scale": numbers(random.scale, "RandomResizedCrop: scale", 2, 0.0),
                    "ratio": numbers(random.ratio, "RandomResizedCrop: ratio", 2, 0.0),
                }
            }
        elif crop is not None:
            how: Any = "not"
            if resize is not None:
                side = _side(resize.size, "Resize: size")
                how = {"exact": side} if isinstance(side, list) else {"short": side}
            cut = {"center": {"resize": how, "size": _both(crop.size, "CenterCrop: size")}}
        elif resize is not None and isinstance(_side(resize.size, "Resize: size"), list):
            cut = {"whole": _both(resize.size, "Resize: size")}
        else:
            raise UsageError(
                "images of a batch need one size",
                help="Resize((height, width)), CenterCrop(size) or RandomResizedCrop(size)",
            )
        flip, normalise = found.get(RandomHorizontalFlip), found.get(Normalize)
        dtype = ("uint8" if normalise is None else "float32") if self.dtype is None else _dtype(self.dtype)
        by = random or resize or Resize(1)
        return {
            "cut": cut,
            "filter": choice(by.interpolation, f"{type(by).__name__}: interpolation", _FILTERS),
            "flip": 0.0 if flip is None else number(flip.p, "RandomHorizontalFlip: p", 0.0, 1.0),
            "axes": choice(self.layout, "layout", ("CHW", "HWC")),
            "dtype": dtype,
            "normalise": None
            if normalise is None
            else [numbers(normalise.mean, "Normalize: mean", 3), numbers(normalise.std, "Normalize: std", 3, 0.0)],
            "reduce": flag(self.reduce, "reduce"),
            "upright": flag(self.upright, "upright"),
        }


def imagenet_train(size: int = 224, *, dtype: str | None = None, layout: str = "CHW") -> Pipeline:
    """As ImageNet is trained on: a random crop, resized, every other one flipped. uint8, unless `dtype` is a float: then it is
    normalised with `IMAGENET_MEAN` and `IMAGENET_STD`."""
    steps: list[Step] = [RandomResizedCrop(size), RandomHorizontalFlip()]
    if dtype not in (None, "uint8"):
        steps.append(Normalize())
    return Pipeline(steps, dtype=dtype, layout=layout)


def imagenet_eval(
    size: int = 224, resize: int | None = None, *, dtype: str | None = None, layout: str = "CHW"
) -> Pipeline:
    """As ImageNet is evaluated: the shorter side resized to `resize` (8/7 of `size` if `None`), and the middle. uint8, unless
    `dtype` is a float: then it is normalised with `IMAGENET_MEAN` and `IMAGENET_STD`."""
    whole(size, "size", 1, _SIDE_END)
    steps: list[Step] = [Resize(round(size * 8 / 7) if resize is None else resize), CenterCrop(size)]
    if dtype not in (None, "uint8"):
        steps.append(Normalize())
    return Pipeline(steps, dtype=dtype, layout=layout)
