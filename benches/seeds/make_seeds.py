"""Make the tiny JPEGs beside this script, from which `cargo xtask bench` makes trees of small files.

How to run, in an environment with pillow 13.0.0 (`cargo xtask fixtures` does it, and compares):

    python benches/seeds/make_seeds.py fixtures/photos

Each is a photograph of fixtures/photos at 96 × 72 pixels, as free as its original: see fixtures/README.md.
"""

import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
SIZE = (96, 72)  # width, height
PHOTOS = ["animals/cat.jpg", "people/astronaut-face.jpg", "space/deep-field-top.jpg", "things/coffee.jpg"]


def main() -> None:
    photos = Path(sys.argv[1])
    for photo in PHOTOS:
        with Image.open(photos / photo) as image:
            small = image.convert("RGB").resize(SIZE, Image.Resampling.LANCZOS)
        small.info.clear()
        small.save(HERE / Path(photo).name, "JPEG", quality=75)


if __name__ == "__main__":
    main()
