"""Augment images in memory on one thread; print the seconds and CPU seconds.

    augment.py shardpack|torchvision ROW IMAGES
    augment.py rows

The images are `[224, 224, 3] uint8`; torchvision's v2 has them as tensors `[3, 224, 224]`. Imports are not counted.
"""

import sys
import time

SIDE = 224
#: Different images; the work takes them in turn.
DIFFERENT = 32

#: Each row as steps of a module: the names and arguments are the same in both.
ROWS = {
    "none: RandomInvert(0.0)": lambda m: [m.RandomInvert(0.0)],
    "ColorJitter(brightness)": lambda m: [m.ColorJitter(brightness=(0.5, 1.5))],
    "ColorJitter(contrast)": lambda m: [m.ColorJitter(contrast=(0.5, 1.5))],
    "ColorJitter(saturation)": lambda m: [m.ColorJitter(saturation=(0.5, 1.5))],
    "ColorJitter(hue)": lambda m: [m.ColorJitter(hue=(-0.2, 0.2))],
    "ColorJitter, all four": lambda m: [m.ColorJitter(0.8, 0.8, 0.8, 0.2)],
    "RandomGrayscale": lambda m: [m.RandomGrayscale(1.0)],
    "GaussianBlur(3)": lambda m: [m.GaussianBlur(3)],
    "GaussianBlur(23)": lambda m: [m.GaussianBlur(23)],
    "RandomSolarize": lambda m: [m.RandomSolarize(128, 1.0)],
    "RandomPosterize": lambda m: [m.RandomPosterize(4, 1.0)],
    "RandomInvert": lambda m: [m.RandomInvert(1.0)],
    "RandomAutocontrast": lambda m: [m.RandomAutocontrast(1.0)],
    "RandomEqualize": lambda m: [m.RandomEqualize(1.0)],
    "RandomAdjustSharpness": lambda m: [m.RandomAdjustSharpness(1.9, 1.0)],
    "RandAugment": lambda m: [m.RandAugment()],
    "TrivialAugmentWide": lambda m: [m.TrivialAugmentWide()],
    "SimCLR after the crop": lambda m: [
        m.RandomApply([m.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        m.RandomGrayscale(0.2),
        m.RandomApply([m.GaussianBlur(23)], p=0.5),
    ],
    "DINO after the crop, first global view": lambda m: [
        m.RandomApply([m.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        m.RandomGrayscale(0.2),
        m.GaussianBlur(9),
    ],
    "DINO after the crop, second global view": lambda m: [
        m.RandomApply([m.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        m.RandomGrayscale(0.2),
        m.RandomApply([m.GaussianBlur(9)], p=0.1),
        m.RandomSolarize(128, 0.2),
    ],
}


def made():
    """Smooth images with some noise, `[N, H, W, 3] uint8`."""
    numbers = numpy.random.default_rng(0)
    coarse = numbers.integers(0, 224, (DIFFERENT, SIDE // 8, SIDE // 8, 3))
    smooth = coarse.repeat(8, axis=1).repeat(8, axis=2)
    return (smooth + numbers.integers(0, 32, smooth.shape)).astype(numpy.uint8)


def by_shardpack(steps, images):
    """A function of the number of a round that augments all images."""
    from shardpack import _native, transforms

    pipeline = json.dumps(transforms.Pipeline([transforms.CenterCrop(SIDE), *steps(transforms)])._request)
    pixels = numpy.concatenate([images, images[..., :1]], -1).tobytes()
    return lambda number: _native.augment(pixels, pipeline, number * DIFFERENT)


def by_torchvision(steps, images):
    """As `by_shardpack`."""
    import torch
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    torch.manual_seed(0)
    transform = v2.Compose(steps(v2))
    tensors = [torch.from_numpy(image.transpose(2, 0, 1).copy()) for image in images]
    return lambda number: [transform(tensor) for tensor in tensors]


if __name__ == "__main__":
    if sys.argv[1] == "rows":
        print("\n".join(ROWS))
        sys.exit()
    import json

    import numpy

    tool, row, count = sys.argv[1:]
    work = {"shardpack": by_shardpack, "torchvision": by_torchvision}[tool](ROWS[row], made())
    work(0)
    start, cpu = time.perf_counter(), time.process_time()
    for number in range(1, int(count) // DIFFERENT + 1):
        work(number)
    print(time.perf_counter() - start, time.process_time() - cpu)
