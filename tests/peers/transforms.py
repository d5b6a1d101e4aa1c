"""Transforms images with torchvision, for comparison with shardpack's transforms.

    transforms.py PAGE boxes < LINES       the box that the Python of PAGE finds for each line
    transforms.py PAGE torchvision FOLDER  boxes and pixels from torchvision for the requests in FOLDER/*.txt

A line of boxes: width height scale scale ratio ratio key. An answer: left top width height.
"""

import math
import sys
from pathlib import Path


def page_functions(page):
    """The functions of the page's block of Python."""
    text = Path(page).read_text().split("```python\n")[1].split("```")[0]
    names = {}
    exec(text, names)
    return names


def parsed(line):
    width, height, *ranges, key = line.split()
    scale, ratio = [float(x) for x in ranges[:2]], [float(x) for x in ranges[2:]]
    return int(width), int(height), scale, ratio, int(key)


def boxes_of_page(names):
    for line in sys.stdin:
        print(*names["random_resized"](*parsed(line)))


class Number:
    """A tensor of one number, in double precision."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


class Draws:
    """Stands in for torch in torchvision's module: its random numbers are those of the page."""

    def __init__(self, names, key):
        self.names, self.key, self.units, self.places = names, key, iter(range(1, 21)), iter([21, 22])

    def tensor(self, values):
        return values

    def log(self, values):
        return [math.log(value) for value in values]

    def exp(self, number):
        return Number(math.exp(number.value))

    def empty(self, _):
        return self

    def uniform_(self, low, high):
        return Number(low + (high - low) * self.names["unit"](self.key, next(self.units)))

    def randint(self, low, high, size):
        return Number(low + self.names["below"](self.key, next(self.places), high - low))


def boxes_by_torchvision(names, folder):
    from PIL import Image
    from torchvision.transforms import transforms

    torch, answers = transforms.torch, []
    sizes = {}
    for line in (folder / "boxes.txt").read_text().splitlines():
        width, height, scale, ratio, key = parsed(line)
        image = sizes.setdefault((width, height), Image.new("L", (width, height)))
        transforms.torch = Draws(names, key)
        top, left, down, across = transforms.RandomResizedCrop.get_params(image, scale, ratio)
        answers.append(f"{left} {top} {across} {down}\n")
    transforms.torch = torch
    (folder / "boxes.out").write_text("".join(answers))


def many_boxes(folder):
    import numpy
    import torch
    from PIL import Image
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(13)
    torch.set_num_threads(1)
    for line in (folder / "many.txt").read_text().splitlines():
        width, height, count = [int(word) for word in line.split()]
        image = Image.new("L", (width, height))
        found = numpy.empty((count, 4), "<i4")
        for at in range(count):
            top, left, down, across = RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3])
            found[at] = left, top, across, down
        found.tofile(folder / f"{width}x{height}.many")


def pixels(folder):
    import numpy
    import torch
    from PIL import Image
    from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize
    from torchvision.transforms import functional

    for number, line in enumerate((folder / "pixels.txt").read_text().splitlines()):
        name, by, height, width, cut, *numbers = line.split()
        size, numbers = [int(height), int(width)], [int(word) for word in numbers]
        by = InterpolationMode(by)
        if cut == "crop":
            transform = lambda image: functional.resized_crop(image, *numbers, size, by, antialias=True)
        elif cut == "whole":
            transform = Resize(size, by)
        elif numbers:
            transform = Compose([Resize(numbers if len(numbers) > 1 else numbers[0], by), CenterCrop(size)])
        else:
            transform = CenterCrop(size)
        array = numpy.load(folder / name)
        of_pillow = numpy.asarray(transform(Image.fromarray(array)))
        of_tensor = transform(torch.from_numpy(array).permute(2, 0, 1)).permute(1, 2, 0)
        for suffix, found in (("pillow", of_pillow), ("tensor", of_tensor.contiguous().numpy())):
            assert found.dtype == numpy.uint8 and list(found.shape) == [*size, 3], (line, found.shape)
            found.tofile(folder / f"{number}.{suffix}")


def numbers(folder):
    """All levels as ToTensor and Normalize convert them, in each type."""
    import numpy
    import torch
    from torchvision.transforms import Compose, Normalize, ToTensor

    levels = numpy.arange(256, dtype=numpy.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    plain = ToTensor()
    normalised = Compose([plain, Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    for name, transform in (("plain", plain), ("normalised", normalised)):
        for dtype in "float32", "float16", "bfloat16":
            tensor = transform(levels).to(getattr(torch, dtype)).contiguous()
            tensor.view(torch.uint8).numpy().tofile(folder / f"{dtype}.{name}")


def main():
    names = page_functions(sys.argv[1])
    if sys.argv[2] == "boxes":
        boxes_of_page(names)
        return
    folder = Path(sys.argv[3])
    boxes_by_torchvision(names, folder)
    many_boxes(folder)
    pixels(folder)
    numbers(folder)


main()
