"""`shardpack.decode` of parts, with crop tables and without, for loops of others."""

from __future__ import annotations

import numpy as np
import pytest

import shardpack
from conftest import PHOTOS

PROGRESSIVE = "deep-field.jpg"
CAT = next(photo for photo in PHOTOS if photo.name == "cat.jpg").read_bytes()


def pixels(*arguments: object, **options: object) -> np.ndarray:
    return np.asarray(shardpack.decode(*arguments, **options))


@pytest.mark.parametrize("photo", PHOTOS, ids=lambda photo: photo.name)
def test_a_part_is_cut_from_the_whole_with_a_table_and_without(photo) -> None:
    content = photo.read_bytes()
    try:
        tables = [None, *(shardpack.crop_table(content, every) for every in (1, 8, 65_535))]
    except shardpack.DataError as error:
        assert photo.name == PROGRESSIVE and "no crop table of this jpeg: progressive" in str(error)
        tables = [None]
    for upright in (False, True):
        whole = pixels(content, upright)
        height, width = whole.shape[:2]
        for box in [(0, 0, width, height), (width // 3, height // 4, width // 2, height - 1), (0, 0, 1, 1)]:
            left, top, right, bottom = box
            for table in tables:
                part = pixels(content, upright, box=box, table=table)
                assert np.array_equal(part, whole[top:bottom, left:right])


def test_a_size_is_height_and_width_and_its_pixels_are_nearly_those_of_pillow() -> None:
    assert pixels(CAT, size=(40, 60)).shape == (40, 60, 3)
    assert pixels(CAT, size=50).shape == (50, 50, 3)
    options = {"box": (10, 20, 110, 140), "size": (30, 25), "reduce": False}
    small = pixels(CAT, **options)
    assert np.array_equal(small, pixels(CAT, **options, table=shardpack.crop_table(CAT)))
    assert not np.array_equal(small, pixels(CAT, **options, filter="bicubic"))
    assert not np.array_equal(small, pixels(CAT, **{**options, "reduce": True}))
    pytest.importorskip("PIL")
    from PIL import Image

    theirs = Image.fromarray(pixels(CAT)).resize((25, 30), Image.Resampling.BILINEAR, box=(10, 20, 110, 140))
    # Pillow reads pixels beside the box.
    inner = np.abs(small.astype(int) - np.asarray(theirs).astype(int))[2:-2, 2:-2]
    assert inner.max() <= 1


def test_a_table_of_another_image_is_ignored() -> None:
    others = [
        shardpack.crop_table(photo.read_bytes()) for photo in PHOTOS if photo.name not in (PROGRESSIVE, "cat.jpg")
    ]
    own = shardpack.crop_table(CAT)
    assert len(others) > 5
    for table in [b"", b"\x00" * 9, own[:-1], own + b"\x00", *others]:
        assert np.array_equal(pixels(CAT, box=(9, 9, 30, 30), table=table), pixels(CAT)[9:30, 9:30])


def test_a_damaged_table_gives_pixels_and_no_error() -> None:
    # Damage that fits the JPEG is found by a hash alone, as the documentation says.
    own = shardpack.crop_table(CAT)
    for at in range(0, len(own), 7):
        flipped = own[:at] + bytes([own[at] ^ 1 << at % 8]) + own[at + 1 :]
        assert pixels(CAT, box=(9, 9, 30, 30), table=flipped).shape == (21, 21, 3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"box": (5, 5, 5, 9)}, "is empty"),
        ({"box": (9, 5, 5, 9)}, "is empty"),
        ({"box": (-1, 5, 5, 9)}, "begins before the image"),
        ({"size": -1}, "1 to 65535 pixels are possible"),
        ({"size": (5, 1 << 40)}, "1 to 65535 pixels are possible"),
        ({"size": 0}, "1 to 65535 are possible"),
        ({"size": (1, 70_000)}, "1 to 65535 are possible"),
        ({"filter": "lanczos"}, "bilinear or bicubic are possible"),
    ],
)
def test_options_that_no_image_fits_are_refused(options: dict, expected: str) -> None:
    with pytest.raises(shardpack.UsageError, match=expected):
        shardpack.decode(CAT, **options)


def test_parts_outside_the_image_and_files_without_tables_are_named() -> None:
    height, width = pixels(CAT).shape[:2]
    with pytest.raises(shardpack.DataError, match=rf"not within the image of {width} × {height} pixels"):
        shardpack.decode(CAT, box=(0, 0, width + 1, 5))
    with pytest.raises(shardpack.DataError, match="not a JPEG"):
        shardpack.crop_table(b"GIF89a")
    with pytest.raises(shardpack.DataError, match="truncated"):
        shardpack.crop_table(CAT[:-50])
    for every in (0, -1, 70_000):
        with pytest.raises(shardpack.UsageError, match="every"):
            shardpack.crop_table(CAT, every=every)
    with pytest.raises(shardpack.DataError, match="not within the image"):
        shardpack.decode(CAT, box=(0, 0, 16_384, 16_384))
