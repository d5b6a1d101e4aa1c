"""Steps of native transforms after the crop, and their requests to the native part. `shardpack.transforms` exports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._options import number, numbers, whole, whole_or_none
from ._sizes import shown
from .errors import UsageError


class Step:
    """Base class of the native steps; other subclasses are refused."""


class Augmentation(Step):
    """Base class of the steps between the flips and `Normalize`; other subclasses are refused."""

    def _request(self) -> Any:
        """JSON for the native part."""
        raise UsageError(f"{shown(self)} is no native transform", help="sample_transform takes any function")


#: How far factors vary around their centre, or their least and greatest.
Jitter = Union[float, Sequence[float], None]


def _pair(value: Any, name: str, least: int, end: int) -> list[int]:
    """Two integers: across and down; one number stands for both."""
    both = value if isinstance(value, (list, tuple)) else [value, value]
    if len(both) != 2:
        raise UsageError(f"{name}={shown(value)}: one number or two are wanted")
    return [whole(one, name, least, end) for one in both]


def _range(value: Any, name: str, least: float, most: float) -> list[float]:
    """Two numbers in order; one number stands for both."""
    both = numbers(value, name, 2, least) if isinstance(value, (list, tuple)) else [number(value, name, least)] * 2
    if not both[0] <= both[1] <= most:
        raise UsageError(f"{name}={shown(value)}: a range of {least:g} to {most:g} is wanted")
    return both


def _factors(value: Jitter, name: str, centre: float) -> Optional[list[float]]:
    """The least and greatest factor, as torchvision finds them; `None` if nothing changes."""
    least, most = (-0.5, 0.5) if centre == 0 else (0.0, 100.0)
    if value is None:
        return None
    if not isinstance(value, (list, tuple)):
        spread = number(value, name, 0.0)
        value = [max(centre - spread, 0.0) if centre else -spread, centre + spread]
    found = _range(value, name, least, most)
    return None if found == [centre, centre] else found


@dataclass(frozen=True)
class RandomApply(Augmentation):
    """Apply all steps or none.

    Args:
        transforms: Steps between the flips and `Normalize`, in their order.
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import ColorJitter, RandomApply, RandomResizedCrop

        steps = [RandomResizedCrop(96), RandomApply([ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    transforms: Sequence[Augmentation]
    p: float = 0.5

    def _request(self) -> Any:
        if not isinstance(self.transforms, (list, tuple)):
            raise UsageError(f"RandomApply: transforms={shown(self.transforms)}: a list of steps is wanted")
        for step in self.transforms:
            if not isinstance(step, Augmentation):
                raise UsageError(f"RandomApply: {shown(step)} is no step between the flips and Normalize")
        return {
            "random_apply": [
                [step._request() for step in self.transforms],
                number(self.p, "RandomApply: p", 0.0, 1.0),
            ]
        }


@dataclass(frozen=True)
class ColorJitter(Augmentation):
    """Change brightness, contrast, saturation and hue at random, in random order.

    Args:
        brightness: Factors are `max(0, 1 - brightness)` to `1 + brightness`, or the least and greatest factor, 0 to 100.
        contrast: As `brightness`.
        saturation: As `brightness`.
        hue: Shares of the circle of hues, `-hue` to `hue`, or least and greatest, -0.5 to 0.5.

    Example:
        from shardpack.transforms import ColorJitter, RandomResizedCrop

        steps = [RandomResizedCrop(96), ColorJitter(brightness=0.4, hue=(-0.1, 0.05))]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    brightness: Jitter = None
    contrast: Jitter = None
    saturation: Jitter = None
    hue: Jitter = None

    def _request(self) -> Any:
        names = [("brightness", 1.0), ("contrast", 1.0), ("saturation", 1.0), ("hue", 0.0)]
        return {
            "color_jitter": {
                name: _factors(getattr(self, name), f"ColorJitter: {name}", centre) for name, centre in names
            }
        }


@dataclass(frozen=True)
class GaussianBlur(Augmentation):
    """Blur with a Gaussian kernel of random width.

    Args:
        kernel_size: Side of the kernel in pixels, or width and height: odd, less than twice the side of the image.
        sigma: Standard deviation in pixels, or least and greatest, 0.01 to 1000.

    Example:
        from shardpack.transforms import GaussianBlur, RandomApply, RandomResizedCrop

        steps = [RandomResizedCrop(96), RandomApply([GaussianBlur(9, sigma=(0.1, 2.0))])]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    kernel_size: Union[int, Sequence[int]]
    sigma: Union[float, Sequence[float]] = (0.1, 2.0)

    def _request(self) -> Any:
        kernel = _pair(self.kernel_size, "GaussianBlur: kernel_size", 1, 131_072)
        if any(side % 2 == 0 for side in kernel):
            raise UsageError(f"GaussianBlur: kernel_size={shown(self.kernel_size)}: odd numbers are possible")
        return {"gaussian_blur": {"kernel": kernel, "sigma": _range(self.sigma, "GaussianBlur: sigma", 0.01, 1000.0)}}


class _Random(Augmentation):
    """An adjustment with a probability."""

    p: float

    def _adjustment(self) -> Any:
        raise NotImplementedError

    def _request(self) -> Any:
        return {"random": [self._adjustment(), number(self.p, f"{type(self).__name__}: p", 0.0, 1.0)]}


@dataclass(frozen=True)
class RandomGrayscale(_Random):
    """Convert to grey at random, with three equal channels.

    Args:
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomGrayscale, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomGrayscale(0.2)])
    """

    p: float = 0.1

    def _adjustment(self) -> Any:
        return "grayscale"


@dataclass(frozen=True)
class RandomSolarize(_Random):
    """Invert the levels from a threshold on, at random.

    Args:
        threshold: Least level that is inverted, 0 to 255.
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomResizedCrop, RandomSolarize

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomSolarize(128, p=0.2)])
    """

    threshold: float
    p: float = 0.5

    def _adjustment(self) -> Any:
        return {"solarize": number(self.threshold, "RandomSolarize: threshold", 0.0, 255.0)}


@dataclass(frozen=True)
class RandomPosterize(_Random):
    """Keep the upper bits of each level, at random.

    Args:
        bits: Number of bits, 0 to 8.
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomPosterize, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomPosterize(4)])
    """

    bits: int
    p: float = 0.5

    def _adjustment(self) -> Any:
        return {"posterize": whole(self.bits, "RandomPosterize: bits", 0, 9)}


@dataclass(frozen=True)
class RandomInvert(_Random):
    """Invert the levels at random.

    Args:
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomInvert, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomInvert()])
    """

    p: float = 0.5

    def _adjustment(self) -> Any:
        return "invert"


@dataclass(frozen=True)
class RandomAutocontrast(_Random):
    """Stretch the levels of each channel to 0 to 255, at random.

    Args:
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomAutocontrast, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomAutocontrast()])
    """

    p: float = 0.5

    def _adjustment(self) -> Any:
        return "autocontrast"


@dataclass(frozen=True)
class RandomEqualize(_Random):
    """Equalize the histogram of each channel, at random.

    Args:
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomEqualize, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomEqualize()])
    """

    p: float = 0.5

    def _adjustment(self) -> Any:
        return "equalize"


@dataclass(frozen=True)
class RandomAdjustSharpness(_Random):
    """Sharpen or blur at random.

    Args:
        sharpness_factor: 0 blurs, 1 changes nothing, 2 sharpens; 0 to 100.
        p: Probability, 0 to 1.

    Example:
        from shardpack.transforms import RandomAdjustSharpness, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandomAdjustSharpness(2)])
    """

    sharpness_factor: float
    p: float = 0.5

    def _adjustment(self) -> Any:
        return {"sharpness": number(self.sharpness_factor, "RandomAdjustSharpness: sharpness_factor", 0.0, 100.0)}


@dataclass(frozen=True)
class RandAugment(Augmentation):
    """Apply random adjustments of one magnitude; places that come from outside the image are black.

    Args:
        num_ops: Number of adjustments, 0 to 100.
        magnitude: Magnitude, 0 to `num_magnitude_bins - 1`.
        num_magnitude_bins: Number of magnitudes, 2 to 1000.

    Example:
        from shardpack.transforms import RandAugment, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), RandAugment()])
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31

    def _request(self) -> Any:
        bins = whole(self.num_magnitude_bins, "RandAugment: num_magnitude_bins", 2, 1001)
        return {
            "rand_augment": {
                "num_ops": whole(self.num_ops, "RandAugment: num_ops", 0, 101),
                "magnitude": whole(self.magnitude, "RandAugment: magnitude", 0, bins),
                "num_magnitude_bins": bins,
            }
        }


@dataclass(frozen=True)
class TrivialAugmentWide(Augmentation):
    """Apply one random adjustment of random magnitude; places that come from outside the image are black.

    Args:
        num_magnitude_bins: Number of magnitudes, 2 to 1000.

    Example:
        from shardpack.transforms import RandomResizedCrop, TrivialAugmentWide

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), TrivialAugmentWide()])
    """

    num_magnitude_bins: int = 31

    def _request(self) -> Any:
        bins = whole(self.num_magnitude_bins, "TrivialAugmentWide: num_magnitude_bins", 2, 1001)
        return {"trivial_augment_wide": {"num_magnitude_bins": bins}}


@dataclass(frozen=True)
class RandomErasing(Step):
    """Erase a random box of the output, after `Normalize`.

    Args:
        p: Probability, 0 to 1.
        scale: Smallest and largest share of the area, 0 to 1.
        ratio: Smallest and largest height divided by width, 0.001 to 1000.
        value: The number that is written, or one for red, green and blue: normalised numbers, or levels for uint8.
            `"random"`: random numbers with mean 0 and variance 1, for floats only.

    Example:
        from shardpack.transforms import Normalize, RandomErasing, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), Normalize(), RandomErasing()])
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Union[float, Sequence[float], str] = 0.0

    def _request(self) -> Any:
        value = [self.value] * 3 if not isinstance(self.value, (list, tuple)) else self.value
        return {
            "p": number(self.p, "RandomErasing: p", 0.0, 1.0),
            "scale": numbers(self.scale, "RandomErasing: scale", 2, 0.0),
            "ratio": numbers(self.ratio, "RandomErasing: ratio", 2, 0.0),
            "value": None
            if isinstance(self.value, str) and self.value == "random"
            else numbers(value, "RandomErasing: value", 3),
        }


class Mixing(Step):
    """Base class of the steps that mix the images of a batch; other subclasses are refused."""

    def _request(self) -> list[Any]:
        """JSON for the native part: ways to mix, each with its probability."""
        raise UsageError(f"{shown(self)} is no native transform", help="batch_transform takes any function")

    @property
    def _classes(self) -> int:
        """The number of classes, or 0."""
        raise NotImplementedError


class _Pairs(Mixing):
    alpha: float
    num_classes: Optional[int]
    _name: str

    def _request(self) -> list[Any]:
        alpha = number(self.alpha, f"{type(self).__name__}: alpha", 0.0, 100.0)
        if alpha == 0:
            raise UsageError(f"{type(self).__name__}: alpha=0: above 0 is possible")
        return [[{self._name: {"alpha": alpha}}, 1.0]]

    @property
    def _classes(self) -> int:
        return whole_or_none(self.num_classes, f"{type(self).__name__}: num_classes", 1, 1 << 24) or 0


@dataclass(frozen=True)
class MixUp(_Pairs):
    """Mix each image of a batch with the one before it, by one share for the batch.

    Labels are `[B, classes] float32`: the shares of the classes.

    Args:
        alpha: Parameter of the distribution Beta(alpha, alpha) of shares, above 0, up to 100.
        num_classes: Number of classes. `None`: those of the dataset.

    Example:
        from shardpack.transforms import MixUp, Normalize, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), Normalize(), MixUp(0.2)])
        images, labels = next(iter(loader))
        print(tuple(labels.shape) == (64, len(loader.classes)))  # True
    """

    alpha: float = 1.0
    num_classes: Optional[int] = None
    _name = "mix_up"


@dataclass(frozen=True)
class CutMix(_Pairs):
    """Replace a random box in each image of a batch by that of the one before it.

    Labels are `[B, classes] float32`: the shares of the classes. The box is the same for the whole batch.

    Args:
        alpha: Parameter of the distribution Beta(alpha, alpha) of the share that stays, above 0, up to 100.
        num_classes: Number of classes. `None`: those of the dataset.

    Example:
        from shardpack.transforms import CutMix, RandomResizedCrop

        loader = shardpack.Loader("packed", 64, transform=[RandomResizedCrop(96), CutMix()])
    """

    alpha: float = 1.0
    num_classes: Optional[int] = None
    _name = "cut_mix"


@dataclass(frozen=True)
class RandomChoice(Mixing):
    """Apply one of `MixUp` and `CutMix` to each batch.

    Args:
        transforms: The steps.
        p: Probability of each step; with a sum below 1, the rest of the batches stay as they are. `None`: equal ones.

    Example:
        from shardpack.transforms import CutMix, MixUp, RandomChoice, RandomResizedCrop

        steps = [RandomResizedCrop(96), RandomChoice([MixUp(0.2), CutMix()], p=[0.4, 0.4])]
        loader = shardpack.Loader("packed", 64, transform=steps)
    """

    transforms: Sequence[Mixing]
    p: Optional[Sequence[float]] = None

    def _request(self) -> list[Any]:
        if not isinstance(self.transforms, (list, tuple)) or not self.transforms:
            raise UsageError(f"RandomChoice: transforms={shown(self.transforms)}: a list of MixUp and CutMix is wanted")
        for step in self.transforms:
            if not isinstance(step, (MixUp, CutMix)):
                raise UsageError(f"RandomChoice: {shown(step)} is neither MixUp nor CutMix")
        count = len(self.transforms)
        shares = [1 / count] * count if self.p is None else numbers(self.p, "RandomChoice: p", count, 0.0)
        if sum(shares) > 1 + 1e-9:
            raise UsageError(f"RandomChoice: p={shown(self.p)}: the sum of probabilities is at most 1")
        return [[way, share] for step, share in zip(self.transforms, shares) for way, _ in step._request()]

    @property
    def _classes(self) -> int:
        found = {step._classes for step in self.transforms}
        if len(found) > 1:
            raise UsageError("RandomChoice: its steps have different num_classes")
        return found.pop()
