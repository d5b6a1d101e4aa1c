"""Make photographs as ImageNet has them, and large ones, of the few that come with Python packages.

    photographs.py small DESTINATION            250 JPEGs of 110 KB on average, of 300 to 500 pixels a side
    photographs.py large DESTINATION [FOLDER]   24 JPEGs of 3264 x 2448 pixels, of the JPEGs in FOLDER if one is given

A small one is a window of a photograph at its own resolution (of the larger ones up to twice reduced), as it is or
mirrored, at the quality that brings it near a length that was drawn for it. As in ImageNet, three of four keep the colours at
full resolution, and all have Huffman tables of their own; none is progressive.

A camera's photograph of 8 megapixels is softer than that, pixel by pixel: a large one is twelve windows, each doubled. What it
shows is no scene, but its lengths, frequencies and colours are those of photographs.

The same bytes each time, with the same version of Pillow.
"""

import io
import random
import sys
from importlib.util import find_spec
from pathlib import Path

from PIL import Image

SMALL, LARGE = 250, 24
# Folder in the package, and the files in it that are photographs in colour.
SOURCES = {
    "skimage": ("data", ["astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "retina.jpg"]),
    "sklearn": ("datasets/images", ["china.jpg", "flower.jpg"]),
}
# Width, height: the commonest of ImageNet.
SHAPES = [(500, 375)] * 5 + [(375, 500)] * 2 + [(500, 333)] * 2 + [(500, 400), (400, 400), (320, 300)]
LENGTHS = (72_000, 205_000)
TILE, ACROSS, DOWN = 816, 4, 3


def photographs(folder: Path | None) -> list[Image.Image]:
    if folder:
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    else:
        paths = []
        for package, (below, names) in SOURCES.items():
            # Found, not imported: their dependencies are not there.
            (root,) = find_spec(package).submodule_search_locations
            paths += [Path(root) / below / name for name in names]
    return [Image.open(path).convert("RGB") for path in paths]


def window(chance: random.Random, image: Image.Image, width: int, height: int) -> Image.Image:
    """A part of `image` of that size, of one and a half times that size or twice it where there is so much; enlarged where
    there is less."""
    most = min(image.width / width, image.height / height, 2.0)
    times = chance.uniform(1.0, most) if most > 1 else most
    size = (min(round(width * times), image.width), min(round(height * times), image.height))
    x, y = chance.randint(0, image.width - size[0]), chance.randint(0, image.height - size[1])
    cut = image.crop((x, y, x + size[0], y + size[1])).resize((width, height), Image.Resampling.LANCZOS)
    return cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if chance.random() < 0.5 else cut


def encoded(image: Image.Image, quality: int, subsampling: str) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, subsampling=subsampling, optimize=True)
    return out.getvalue()


def of_length(image: Image.Image, wanted: int, subsampling: str) -> bytes:
    """The least quality from 50 to 98 that makes at least `wanted` bytes, or the best."""
    low, high = 50, 98
    while low < high:
        middle = (low + high) // 2
        if len(encoded(image, middle, subsampling)) >= wanted:
            high = middle
        else:
            low = middle + 1
    return encoded(image, low, subsampling)


def small(chance: random.Random, images: list[Image.Image]) -> bytes:
    cut = window(chance, chance.choice(images), *chance.choice(SHAPES))
    return of_length(cut, chance.randint(*LENGTHS), "4:4:4" if chance.random() < 0.75 else "4:2:0")


def large(chance: random.Random, images: list[Image.Image]) -> bytes:
    whole = Image.new("RGB", (ACROSS * TILE, DOWN * TILE))
    for tile in range(ACROSS * DOWN):
        cut = window(chance, chance.choice(images), TILE // 2, TILE // 2)
        at = (tile % ACROSS * TILE, tile // ACROSS * TILE)
        whole.paste(cut.resize((TILE, TILE), Image.Resampling.BICUBIC), at)
    return encoded(whole, 92, "4:2:0")


def main() -> None:
    kind, destination = sys.argv[1], Path(sys.argv[2])
    images = photographs(Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    chance = random.Random(0)
    destination.mkdir(parents=True)
    count, make = (SMALL, small) if kind == "small" else (LARGE, large)
    for number in range(count):
        (destination / f"{number:03}.jpg").write_bytes(make(chance, images))


if __name__ == "__main__":
    main()
