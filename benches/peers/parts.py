"""Decode random crops of JPEGs in memory on one thread; print the seconds and CPU seconds.

    parts.py TOOL crop|resized FOLDER CROPS

A crop has 0.08 to 1 of the area and an aspect of 3/4 to 4/3, as RandomResizedCrop draws them; `resized` makes it 224 × 224.
Tools without parts decode the whole image. Imports, reading, and the making of tables are not counted.
"""

import math
import random
import sys
import time
from pathlib import Path

SIDE = 224


def boxes(sizes: list[tuple[int, int]], crops: int) -> list[tuple[int, tuple[int, int, int, int]]]:
    """For each crop: the number of its image, and left, top, right, bottom."""
    random.seed(1)
    found = []
    while len(found) < crops:
        number = len(found) % len(sizes)
        width, height = sizes[number]
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        across, down = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < across <= width and 0 < down <= height:
            left, top = random.randint(0, width - across), random.randint(0, height - down)
            found.append((number, (left, top, left + across, top + down)))
    return found


def by_shardpack(is_resized: bool, has_table: bool):
    import numpy as np

    import shardpack

    size = SIDE if is_resized else None
    tables = {}

    def work(content: bytes, box) -> None:
        table = tables.get(id(content))
        # The others decode all pixels of the crop, too.
        np.asarray(shardpack.decode(content, box=box, size=size, table=table, reduce=False))

    def prepare(contents: list[bytes]) -> None:
        for content in contents if has_table else []:
            try:
                tables[id(content)] = shardpack.crop_table(content)
            except shardpack.DataError as error:
                print(f"without a table: {error}", file=sys.stderr)

    return prepare, work


def by_libjpeg_turbo(is_resized: bool, decode):
    """A whole decode by `decode`, then the crop, or Pillow's resize."""
    import numpy as np
    from PIL import Image

    def work(content: bytes, box) -> None:
        left, top, right, bottom = box
        whole = decode(content)
        if is_resized:
            np.asarray(Image.fromarray(whole).resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))
        else:
            whole[top:bottom, left:right].copy()

    return None, work


def by_simplejpeg(is_resized: bool):
    import simplejpeg

    settings = {"fastdct": False, "fastupsample": False}
    return by_libjpeg_turbo(is_resized, lambda content: simplejpeg.decode_jpeg(content, "RGB", **settings))


def by_pyturbojpeg(is_resized: bool):
    from turbojpeg import TJPF_RGB, TurboJPEG

    decoder = TurboJPEG()
    return by_libjpeg_turbo(is_resized, lambda content: decoder.decode(content, pixel_format=TJPF_RGB))


def by_pillow(is_resized: bool):
    import io

    import numpy as np
    from PIL import Image

    def work(content: bytes, box) -> None:
        image = Image.open(io.BytesIO(content)).convert("RGB")
        if is_resized:
            np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))
        else:
            np.asarray(image.crop(box))

    return None, work


def by_torchvision(is_resized: bool):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import functional

    torch.set_num_threads(1)
    tensors = {}

    def work(content: bytes, box) -> None:
        left, top, right, bottom = box
        whole = decode_jpeg(tensors[id(content)], mode=ImageReadMode.RGB)
        if is_resized:
            functional.resized_crop(whole, top, left, bottom - top, right - left, [SIDE, SIDE], antialias=True)
        else:
            whole[:, top:bottom, left:right].contiguous()

    def prepare(contents: list[bytes]) -> None:
        tensors.update((id(content), torch.frombuffer(bytearray(content), dtype=torch.uint8)) for content in contents)

    return prepare, work


TOOLS = {
    "shardpack": lambda is_resized: by_shardpack(is_resized, False),
    "shardpack with tables": lambda is_resized: by_shardpack(is_resized, True),
    "simplejpeg": by_simplejpeg,
    "PyTurboJPEG": by_pyturbojpeg,
    "torchvision": by_torchvision,
    "Pillow": by_pillow,
}


def size(content: bytes) -> tuple[int, int]:
    """Width and height, from the frame header."""
    at = 2
    while not (0xC0 <= content[at + 1] <= 0xC2):
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return int.from_bytes(content[at + 7 : at + 9], "big"), int.from_bytes(content[at + 5 : at + 7], "big")


def main() -> None:
    tool, kind, folder, crops = sys.argv[1:]
    prepare, work = TOOLS[tool](kind == "resized")
    files = sorted(path for path in Path(folder).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    contents = [content for path in files[: int(crops)] if (content := path.read_bytes())[:2] == b"\xff\xd8"]
    if prepare:
        prepare(contents)
    drawn = boxes([size(content) for content in contents], int(crops))
    # The first crops fill caches.
    for number, box in drawn[:8]:
        work(contents[number], box)
    start, before = time.perf_counter(), time.process_time()
    for number, box in drawn:
        work(contents[number], box)
    print(time.perf_counter() - start, time.process_time() - before)


if __name__ == "__main__":
    main()
