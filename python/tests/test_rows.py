"""Rows of a program: types of columns, errors that name the row, interrupted runs, parts, splits, and tables of other libraries."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardpack
from conftest import PHOTOS, numbered
from shardpack import _spool

PHOTO = PHOTOS[0].read_bytes()
PNG = b"\x89PNG\r\n\x1a\n"
#: Bytes of a row, so that a spool of 70 rows has a complete file of 64 MiB.
MIB = b"\0" * (1 << 20)


def boxes(number: int) -> list[list[float]]:
    return [[1.0, 2.0, 3.0, number]] * (number % 3)


def row(number: int) -> dict[str, Any]:
    return {
        "image": numbered(PHOTO, number),
        "label": ["cat", "dog"][number % 2],
        "mask": Image.new("L", (8, 6), number),
        "boxes": boxes(number),
        "score": number / 4,
        "count": number,
        "flag": number % 2 == 0,
        "embedding": np.arange(number, number + 5, dtype=np.float16),
        "words": ["a", "b"],
        "meta": {"number": np.int64(number), "text": "ä"},
        "caption": f"photo {number}\n",
        "blob": bytes([number, 0, 255]),
        "sometimes": None if number % 2 else "here",
    }


COLUMNS = {"boxes": "float32[n,4]"}


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return found


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("form", ["webdataset", "mds", "tfrecord"])
def test_each_value_comes_back_as_what_it_was(tmp_path: Path, form: str) -> None:
    report = shardpack.pack(
        (row(number) for number in range(12)), tmp_path / "out", columns=COLUMNS, order="source", format=form
    )
    assert report.ok and not (tmp_path / "out.rows").exists()
    packed = shardpack.Dataset(tmp_path / "out")
    assert packed.classes == ["cat", "dog"] and len(packed) == 12
    for sample in packed:
        number = sample.number
        found, wanted = sample.components, row(number)
        assert bytes(sample.bytes) == wanted["image"] and sample.class_name == wanted["label"]
        assert found["boxes.npy"].dtype == np.float32 and found["boxes.npy"].shape == (number % 3, 4)
        np.testing.assert_array_equal(found["boxes.npy"], np.asarray(boxes(number), np.float32).reshape(-1, 4))
        scalars = [(found[f"{name}.npy"].dtype, found[f"{name}.npy"].item()) for name in ("score", "count", "flag")]
        assert scalars == [("float64", number / 4), ("int64", number), ("bool", number % 2 == 0)]
        assert found["embedding.npy"].dtype == np.float16
        np.testing.assert_array_equal(found["embedding.npy"], wanted["embedding"])
        assert found["words.json"] == ["a", "b"]
        assert found["meta.json"] == {"number": number, "text": "ä"}
        assert found["caption.txt"] == wanted["caption"] and bytes(found["blob.bin"]) == wanted["blob"]
        assert Image.open(io.BytesIO(found["mask.png"])).getpixel((0, 0)) == number
        # MDS and TFRecord have an empty text if a sample lacks one.
        assert (found.get("sometimes.txt") or "") == ("" if number % 2 else "here")
    assert shardpack.verify(tmp_path / "out").ok


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shardpack.pack([row(number) for number in range(40)], tmp_path / name, columns=COLUMNS, seed=5)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_images_are_encoded_as_columns_say(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), np.uint8)
    rows = [{"image": Image.fromarray(pixels), "again": pixels, "depth": pixels[..., 0]} for _ in range(3)]
    shardpack.pack(rows, tmp_path / "out", columns={"again": "jpeg:80", "depth": "png"})
    sample = shardpack.Dataset(tmp_path / "out")[0]
    assert sample.kind == "png"
    np.testing.assert_array_equal(Image.open(io.BytesIO(sample.bytes)), pixels)
    assert Image.open(io.BytesIO(sample.components["again.jpg"])).format == "JPEG"
    np.testing.assert_array_equal(Image.open(io.BytesIO(sample.components["depth.png"])), pixels[..., 0])


def test_names_of_classes_keep_their_numbers(tmp_path: Path) -> None:
    rows = [{"label": number % 3, "x": number} for number in range(9)]
    shardpack.pack(rows, tmp_path / "out", class_names=["zebra", "ape", "2"])
    packed = shardpack.Dataset(tmp_path / "out")
    assert packed.classes == ["zebra", "ape", "2"]
    assert {(int(sample.components["x.npy"]) % 3, sample.label) for sample in packed} == {(0, 0), (1, 1), (2, 2)}


def test_tuples_have_the_names_of_the_columns(tmp_path: Path) -> None:
    shardpack.pack([(numbered(PHOTO, 1), 3)], tmp_path / "out", columns={"image": "image", "label": "class"})
    assert shardpack.Dataset(tmp_path / "out")[0].label == 3


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"a": 1}, {"a": 0.5}], {}, "row 1, column a: float64, and the column has int64"),
        ([{"a": np.float32(1)}, {"a": 0.1}], {}, "row 1, column a: float64, and the column has float32"),
        ([{"a": 1}, {"a": "x"}], {}, "row 1, column a"),
        ([{"a": "x"}, {"a": 1}], {}, "row 1, column a: int, and the column has text"),
        ([{"a": 300}], {"columns": {"a": "uint8"}}, "row 0, column a: int64, and the column has uint8"),
        ([{"a": True}], {"columns": {"a": "int64"}}, "row 0, column a: bool, and the column has int64"),
        ([{"a": float("nan")}], {"columns": {"a": "json"}}, "row 0, column a: Out of range float values"),
        ([{"a": []}], {}, "row 0, column a: an empty list has no type"),
        ([{"a": [[1.0, 2.0]]}], {"columns": {"a": "float32[n,4]"}}, "an array of shape [1, 2], and the column has [n,4]"),
        ([{"a": object()}], {}, "row 0, column a: object is no type of a column"),
        ([{"a": b"no image"}], {"columns": {"a": "jpeg"}}, "row 0, column a: the bytes are no image"),
        ([{"a": 1, "label": 0}, {"a": 2}], {}, "row 1, column label: no value, and all rows need one"),
        ([{"a": 1}, {"a": 2, "label": 0}], {}, "row 1, column label: the first value of a column of type class"),
        ([{"a": 1, "label": -1}], {}, "row 0, column label: class -1: classes have the numbers 0 to 65535"),
        ([{"a": 1, "label": "007"}], {}, "row 0, column label: '007' is no name of a class"),
        ([{"a": 1, "label": 2}], {"class_names": ["x", "y"]}, "row 0, column label: class 2: class_names has 2"),
        ([{"a": 1, "label": "z"}], {"class_names": ["x", "y"]}, "row 0, column label: no class 'z' in class_names"),
        ([{"a": 1, "label": 0, "cls": 0}], {}, "columns label and cls are both classes"),
        ([{"image": PHOTO}, {"image": None, "a": 1}], {}, "row 1, column image: no value"),
        ([{"a": 1}, {"a": 1, "image": PHOTO}], {}, "row 1, column image: the first value of a column of type image"),
        ([{"a-b": 1}], {}, "column 'a-b': names have letters, digits and _"),
        ([{"x": 1, "label": 100_000}], {}, "class 100000: classes have the numbers 0 to 65535"),
        ([{"x": 1, "label": 1}, {"x": 1, "label": "a"}], {}, "numbers and names of classes in one column"),
        ([{"x": 1, "label": "\ufeffa"}], {}, "characters that are not printable"),
        ([{"x": 1, "label": "[1]"}], {}, "it reads as JSON"),
        ([{"x": 1, "label": "a"}], {"class_names": ["a\0", "b"]}, "class_names: 'a\\x00' is no name of class 0"),
        ([{"x": 1}], {"class_names": ["a", "b"]}, "class_names, and row 0 has no such column of classes"),
        ([{"x": 1}], {"label": "y"}, "label='y', and row 0 has no such column of classes"),
        ([{"a": 2**53 + 1}], {"columns": {"a": "float64"}}, "a whole number that float64 cannot hold"),
        ([{"a": 1e300}], {"columns": {"a": "float32"}}, "float64, and the column has float32"),
        ([{"a": [2**53 + 1, 0.5]}], {}, "a list with whole numbers that a float cannot hold"),
        ([{"a": [True, 2]}], {}, "a list of numbers and of True or False"),
        ([{"a": np.ma.array([1, 2], mask=[0, 1])}], {}, "a masked array"),
        ([{"a": 1.0}], {"columns": {"a": "int64"}}, "float64, and the column has int64"),
        ([{"a": []}], {"columns": {"a": "float32[4]"}}, "only the first axis of the column may be empty"),
        ([{"a": {1: 2}}], {}, "the key 1, and keys of JSON are text"),
        ([{"a": np.datetime64("2020-01-01")}], {}, "datetime64[D] is no type of numbers"),
        ([{f"c{number}": 1 for number in range(40)}], {}, "a dataset has at most 32 columns"),
        ([{"t": "a"}, {"t": ""}], {}, "row 1: no column has a value in this row and in all rows before"),
        ([{"a": 1}, {"b": 2}], {}, "row 1: no column has a value in this row and in all rows before"),
        ([{"image": PHOTO, "x": 1}], {"format": "recordio"}, "recordio has an image and a class, and no place for x"),
        ([{"mask": PHOTO}, {"mask": PHOTO, "image": PHOTO}], {}, "row 1, column image: the first value"),
        ([{"a": PHOTO, "b": PHOTO}, {"a": PHOTO, "b": PNG}], {}, "an image png, and the column has jpg"),
        ([{"a": Image.new("F", (2, 2))}], {"columns": {"a": "webp"}}, "pixels of mode F, which webp does not keep"),
        ([{"A": 1, "a": 2}], {}, "columns A and a have one name in a shard"),
        ([{"a b": 1}], {}, "column 'a b': names have letters, digits and _"),
        ([{"a" * 40: 1}], {}, "is longer than 32 bytes"),
        ([{"label": 1}], {}, "row 0: no value besides the class"),
        ([{}], {}, "row 0: no value besides the class"),
        ([(1, 2)], {}, "row 0: tuple of 2 values, and a dict is wanted"),
        ([], {}, "no rows"),
        (5, {}, "int yields no rows"),
        ([{"a": 1}], {"columns": {"a": "float33"}}, "columns: no type 'float33'"),
        ([{"a": 1}], {"columns": {"b": "int8"}}, "columns: no row has a value of b; the rows have a"),
        ([{"a": 1}], {"class_names": ["x", "x"]}, "two classes have one name"),
        ([{"a": 1}], {"class_names": ["1"]}, "class_names: '1' is no name of class 0"),
        ([{"a": 1}], {"label_pattern": "{label}"}, "no option 'label_pattern'"),
        ({"a/b": [{"a": 1}]}, {}, "split 'a/b': names of splits"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, rows: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(shardpack.Error, match="(?s)") as raised:
        shardpack.pack(rows, tmp_path / "out", **options)
    assert message in str(raised.value), raised.value
    assert not (tmp_path / "out").exists()


def test_a_dataset_is_not_replaced_without_force(tmp_path: Path) -> None:
    shardpack.pack([{"x": 1, "label": 0}], tmp_path / "out")
    with pytest.raises(shardpack.UsageError, match="holds a dataset already"):
        shardpack.pack([{"x": 7, "label": 0}], tmp_path / "out")
    # As after a kill between the last byte of the dataset and the removal of the rows: lengths are equal, and content is not.
    for value in (1, 7):
        types = _spool.Types(None, None, None)
        rows = _spool.Rows(str(tmp_path / "out.rows"), str(tmp_path / "out"), types, resume=False)
        rows.write({"x": value, "label": 0})
        rows.finish(None)
        rows.close()
        if value == 7:
            with pytest.raises(shardpack.UsageError, match="has other rows already"):
                shardpack.pack([{"x": 7, "label": 0}], tmp_path / "out", resume=True)
        else:
            assert shardpack.pack([{"x": 1, "label": 0}], tmp_path / "out", resume=True).ok
    assert shardpack.pack([{"x": 7, "label": 0}], tmp_path / "out", resume=True, force=True).ok
    assert int(shardpack.Dataset(tmp_path / "out")[0].components["x.npy"]) == 7


def test_other_files_and_rows_of_other_runs_are_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    with pytest.raises(shardpack.UsageError, match="has thesis.txt, which is no file of rows"):
        shardpack.pack([{"x": 1}], tmp_path / "out", spool=tmp_path / "mine")
    assert (tmp_path / "mine/thesis.txt").read_text() == "mine"
    out = tmp_path / "out"
    with shardpack.Writer(out, part="1/2") as writer:
        writer.write({"x": 1})
    for rows in ([], [{"x": 1}], {"train": [{"x": 1}]}):
        with pytest.raises(shardpack.UsageError, match="part-000001-of-000002"):
            shardpack.pack(rows, out)
    with shardpack.Writer(out, part="2/2") as writer:
        writer.write({"x": 2})
    assert shardpack.merge(out).ok and len(shardpack.Dataset(out)) == 2


def test_a_row_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    with shardpack.Writer(tmp_path / "out", order="source") as writer:
        for first in ({"label": 1}, {"n": 1.5, "t": 5, "q": object()}, {"image": PHOTO, "label": -1}):
            with pytest.raises(shardpack.Error):
                writer.write(first)
        for number in range(3):
            writer.write({"n": number, "t": f"text {number}"})
            with pytest.raises(shardpack.DataError):
                writer.write({"n": number, "t": 5, "new": 1})
    found = [sample.components for sample in shardpack.Dataset(tmp_path / "out")]
    assert [(one["n.npy"].dtype, one["n.npy"].item(), one["t.txt"]) for one in found] == [
        ("int64", number, f"text {number}") for number in range(3)
    ]


#: Rows whose values have the types of the first row, other types, or no value; each field of a row as the first one has it, or not.
KNOWN = [
    {
        "label": 1,
        "n": 1,
        "x": 0.5,
        "f": True,
        "t": "text",
        "b": b"bytes",
        "image": PHOTO,
        "a": [1, 2],
        "e": "",
        "none": None,
    },
    {
        "label": 2,
        "n": -1,
        "x": float("inf"),
        "f": False,
        "t": "ä",
        "b": b"",
        "image": PNG,
        "a": [3, 4],
        "e": "",
        "none": None,
    },
    {
        "label": np.int64(3),
        "n": np.int64(4),
        "x": 7,
        "f": np.True_,
        "t": "",
        "b": bytearray(b"x"),
        "image": bytearray(PHOTO),
        "a": (5, 6),
    },
    {"image": PHOTO, "t": "other order", "n": 2**62, "label": 1, "x": np.float64(0.25), "a": np.array([7, 8])},
    {"label": 1, "n": 1, "x": None, "f": None, "t": None, "b": None, "image": PHOTO, "a": None, "late": "new"},
    {"label": 5, "n": 1, "x": 1.5, "image": PHOTO, "late": "known", "e": "filled"},
]
REFUSED: list[dict[str, Any]] = [
    {"label": True},
    {"label": 1.0},
    {"label": -1},
    {"label": "one"},
    {"n": True},
    {"n": 2**63},
    {"n": 0.5},
    {"x": True},
    {"x": 2**60 + 1},
    {"f": 1},
    {"t": b"text"},
    {"t": "\ud800"},
    {"b": "bytes"},
    {"image": b"no image"},
    {"image": None},
    {"label": None},
    {"N": 1},
    {"new-name": 1},
]


def test_rows_of_known_columns_are_written_as_any_rows(tmp_path: Path) -> None:
    # Only a dict is written by the native part alone.
    for name, made in (("known", dict), ("any", types.MappingProxyType)):
        errors = []
        with shardpack.Writer(tmp_path / name, order="source") as writer:
            for number in range(40):
                writer.write(made({**KNOWN[number % len(KNOWN)], "key": f"{number}"}))
                other = REFUSED[number % len(REFUSED)]
                with pytest.raises(shardpack.Error) as refused:
                    writer.write(made({**KNOWN[0], "key": "x", **other}))
                errors.append(str(refused.value))
        assert writer.rows == 40 and len(set(errors)) > 12
        if name == "known":
            expected = errors
    assert errors == expected
    assert files(tmp_path / "known") == files(tmp_path / "any")


def test_an_encoder_that_is_interrupted_writes_no_row(tmp_path: Path) -> None:
    class Stubborn:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    with shardpack.Writer(tmp_path / "out") as writer:
        writer.write({"a": np.arange(3)})
        with pytest.raises(KeyboardInterrupt):
            writer.write({"a": Stubborn()})
        writer.write({"a": np.arange(3)})
    assert len(shardpack.Dataset(tmp_path / "out")) == 2


def test_rows_of_an_earlier_version_are_refused(tmp_path: Path) -> None:
    old = tmp_path / "out.rows/rows-000000000000-000000000002.tar"
    old.parent.mkdir()
    old.write_bytes(b"rows")
    with pytest.raises(shardpack.UsageError, match="rows of an earlier version of shardpack") as refused:
        shardpack.Writer(tmp_path / "out", resume=True)
    assert "remove the folder" in str(refused.value) and old.read_bytes() == b"rows"


def test_rows_that_a_power_failure_damaged_are_written_again(tmp_path: Path) -> None:
    for kept in (0, 1):
        with pytest.raises(LookupError), shardpack.Writer(tmp_path / "out") as writer:
            for number in range(140):
                writer.write({"data": MIB, "number": number})
            raise LookupError
        paths = sorted((tmp_path / "out.rows").glob("rows-*.rows"))
        assert len(paths) == 2
        damaged = paths[kept].read_bytes()
        paths[kept].write_bytes(bytes(len(damaged)))
        with shardpack.Writer(tmp_path / "out", resume=True, force=True) as writer:
            assert writer.rows == 64 * kept
            for number in range(writer.rows, 140):
                writer.write({"data": MIB, "number": number})
        numbers = {int(sample.components["number.npy"]) for sample in shardpack.Dataset(tmp_path / "out")}
        assert numbers == set(range(140))
        shutil.rmtree(tmp_path / "out")


def test_a_run_that_resumes_is_of_the_same_dataset(tmp_path: Path) -> None:
    def interrupted(**options: Any) -> None:
        with pytest.raises(LookupError), shardpack.Writer(tmp_path / "out", **options) as writer:
            for _ in range(70):
                writer.write({"data": MIB, "label": 0})
            raise LookupError

    interrupted(class_names=["a", "b"])
    for options, message in (
        ({"class_names": ["b", "a"]}, "class_names is"),
        ({}, "class_names is"),
        ({"class_names": ["a", "b"], "label": "data"}, "label is 'data', and None in the rows that are kept"),
    ):
        with pytest.raises(shardpack.UsageError, match=message):
            shardpack.Writer(tmp_path / "out", resume=True, **options)
    with pytest.raises(shardpack.UsageError, match="dst is"):
        shardpack.Writer(tmp_path / "other", class_names=["a", "b"], resume=True, spool=tmp_path / "out.rows")
    with pytest.raises(shardpack.DataError, match="1 rows, and 64 are kept"):
        shardpack.pack([{"data": b"x", "label": 0}], tmp_path / "out", class_names=["a", "b"], resume=True)
    (tmp_path / "out.rows/columns.json").write_text("{")
    with pytest.raises(shardpack.DataError, match="columns.json is missing or damaged"):
        shardpack.Writer(tmp_path / "out", class_names=["a", "b"], resume=True)


def test_the_working_folder_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with shardpack.Writer("out") as writer:
        writer.write({"x": 1})
        monkeypatch.chdir(tmp_path / "elsewhere")
        writer.write({"x": 2})
    assert len(shardpack.Dataset(tmp_path / "out")) == 2 and os.listdir(tmp_path / "elsewhere") == []


def test_a_part_that_is_written_again_is_not_merged_before_it_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for part in ("1/2", "2/2"):
        with shardpack.Writer(out, part=part) as writer:
            writer.write({"x": 1})
    writer = shardpack.Writer(out, part="2/2", resume=True)
    with pytest.raises(shardpack.UsageError, match="another shardpack"):
        shardpack.merge(out)
    writer.abandon()
    with pytest.raises(shardpack.UsageError, match="parts are missing or not finished: 2"):
        shardpack.merge(out)


def test_a_merge_that_was_killed_after_sealing_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    for part in ("1/2", "2/2"):
        with shardpack.Writer(out, part=part) as writer:
            writer.write({"x": 1})
    monkeypatch.setattr(_spool.Rows, "remove", _spool.Rows.close)
    assert shardpack.merge(out).ok and len(os.listdir(tmp_path / "out.rows")) == 2
    monkeypatch.undo()
    report = shardpack.merge(out)
    assert report.ok and report.datasets[0]["samples"] == 2 and not (tmp_path / "out.rows").exists()


def test_a_value_that_convert_does_not_know_is_refused_before_the_first_row(tmp_path: Path) -> None:
    drawn = []

    def rows() -> Iterator[dict[str, Any]]:
        drawn.append(1)
        yield {"a": 1}

    for options in ({"order": "sorted"}, {"shard_size": "1 foo"}, {"jobs": 0}, {"format": ["mds", "tar file"]}):
        with pytest.raises(shardpack.UsageError, match="invalid value"):
            shardpack.pack(rows(), tmp_path / "out", **options)
    assert not drawn and list(tmp_path.iterdir()) == []


def test_a_request_that_convert_refuses_keeps_the_rows(tmp_path: Path) -> None:
    splits = {"train": [{"a": 1}], "val": [{"a": 2}]}
    with pytest.raises(shardpack.UsageError, match="resume=True packs them"):
        shardpack.pack(splits, tmp_path / "out", split_fraction={"val": 0.5})
    assert shardpack.pack(splits, tmp_path / "out", resume=True).ok


def test_several_formats_have_the_same_rows(tmp_path: Path) -> None:
    rows = [{"x": number, "label": number % 2} for number in range(10)]
    for _ in range(2):
        report = shardpack.pack(rows, tmp_path / "out", format=["webdataset", "mds"], order="source")
        assert report.ok and not (tmp_path / "out.rows").exists()
    for form in ("webdataset", "mds"):
        found = shardpack.Dataset(tmp_path / "out" / form)
        assert sorted(int(sample.components["x.npy"]) for sample in found) == list(range(10))
    with pytest.raises(shardpack.UsageError, match="has other rows already"):
        shardpack.pack(
            [{**row, "x": 7} for row in rows], tmp_path / "out", format=["webdataset", "mds"], order="source"
        )


def test_options_of_rows_are_refused_for_a_path(few: Path, tmp_path: Path) -> None:
    with pytest.raises(shardpack.UsageError, match="columns is for rows"):
        shardpack.pack(few, tmp_path / "out", columns={"a": "text"})


def test_a_generator_that_raises_packs_nothing_and_the_next_run_continues(tmp_path: Path) -> None:
    def rows(start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        for number in range(start, 80):
            if number == stop:
                raise LookupError("the disk of the caller")
            yield {"data": MIB, "boxes": boxes(number), "number": number}

    with pytest.raises(LookupError):
        shardpack.pack(rows(stop=3), tmp_path / "out", columns=COLUMNS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LookupError):
        shardpack.pack(rows(stop=70), tmp_path / "out", columns=COLUMNS)
    assert not (tmp_path / "out").exists()
    with pytest.raises(shardpack.UsageError, match="has 64 rows of an interrupted run"):
        shardpack.pack(rows(), tmp_path / "out", columns=COLUMNS)
    with pytest.raises(
        shardpack.UsageError, match=r"column boxes is text, and float32\[n,4\] in the rows that are kept"
    ):
        shardpack.pack(rows(), tmp_path / "out", columns={"boxes": "text"}, resume=True)
    with pytest.raises(shardpack.DataError, match="10 rows, and 64 are kept"):
        shardpack.pack(({"number": number} for number in range(10)), tmp_path / "out", columns=COLUMNS, resume=True)
    starts = []

    def from_start(start: int) -> Iterator[dict[str, Any]]:
        starts.append(start)
        return rows(start)

    assert shardpack.pack(from_start, tmp_path / "out", columns=COLUMNS, resume=True).ok and starts == [64]
    shardpack.pack(list(rows()), tmp_path / "whole", columns=COLUMNS)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_a_killed_process_leaves_rows_that_the_next_run_keeps(tmp_path: Path) -> None:
    script = f"""
        import os, signal, shardpack
        with shardpack.Writer({str(tmp_path / "out")!r}) as writer:
            for number in range(200):
                if number == 150:
                    os.kill(os.getpid(), signal.SIGKILL)
                writer.write({{"data": bytes(1 << 20), "number": number}})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=120)
    assert done.returncode == -signal.SIGKILL and not (tmp_path / "out").exists()
    with shardpack.Writer(tmp_path / "out", resume=True) as writer:
        # The second file may have been in flight.
        assert writer.rows in (64, 128)
        for number in range(writer.rows, 200):
            writer.write({"data": MIB, "number": number})
    numbers = {int(sample.components["number.npy"]) for sample in shardpack.Dataset(tmp_path / "out")}
    assert numbers == set(range(200)) and not (tmp_path / "out.rows").exists()


def test_two_writers_of_one_folder_are_refused(tmp_path: Path) -> None:
    with shardpack.Writer(tmp_path / "out") as writer:
        with pytest.raises(shardpack.UsageError, match="another shardpack"):
            shardpack.Writer(tmp_path / "out")
        writer.write({"a": 1})
    with pytest.raises(shardpack.UsageError, match="closed"):
        writer.write({"a": 1})


def test_parts_are_merged_in_their_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for part in (3, 1):
        with shardpack.Writer(out, COLUMNS, part=f"{part}/3", order="source") as writer:
            for number in range(part * 10, part * 10 + 10):
                writer.write(row(number))
        assert writer.report is None
    with pytest.raises(shardpack.UsageError, match="parts are missing or not finished: 2"):
        shardpack.merge(out)
    with shardpack.Writer(out, COLUMNS, part="2/3", order="source") as writer:
        pass
    assert shardpack.merge(out).ok and not (tmp_path / "out.rows").exists()
    numbers = [int(sample.components["count.npy"]) for sample in shardpack.Dataset(out)]
    assert sorted(numbers) == [*range(10, 20), *range(30, 40)]


def test_parts_with_different_columns_are_refused(tmp_path: Path) -> None:
    for part, value in ((1, 1), (2, 0.5)):
        with shardpack.Writer(tmp_path / "out", part=f"{part}/2") as writer:
            writer.write({"a": value})
    with pytest.raises(shardpack.UsageError, match="column a is float64, and int64 in"):
        shardpack.merge(tmp_path / "out")


def test_a_column_that_no_row_of_any_part_has_is_refused(tmp_path: Path) -> None:
    for part, value in ((1, {"x": 1}), (2, {"x": 1, "y": 2})):
        with shardpack.Writer(tmp_path / "out", {"y": "int8", "z": "int8"}, part=f"{part}/2") as writer:
            writer.write(value)
    with pytest.raises(shardpack.UsageError, match="columns: no row has a value of z; the rows have x, y"):
        shardpack.merge(tmp_path / "out")


def test_a_dict_of_rows_is_splits_with_one_list_of_classes(tmp_path: Path) -> None:
    splits = {
        "train": [{"x": 1, "label": "b"}, {"x": 3, "label": "a"}, {"x": 4, "label": "b"}],
        "val": [{"x": 2, "label": "a"}] * 2,
    }
    assert shardpack.pack(splits, tmp_path / "out").ok
    for name, samples in (("train", 3), ("val", 2)):
        packed = shardpack.Dataset(tmp_path / "out" / name)
        assert len(packed) == samples and packed.classes == ["a", "b"]


def test_a_folder_with_characters_of_patterns(tmp_path: Path) -> None:
    out = tmp_path / "a[1]{2}*"
    assert shardpack.pack([{"x": 1}], out).ok
    assert os.listdir(tmp_path) == [out.name]


def test_a_label_that_is_no_class_is_noted(tmp_path: Path) -> None:
    for label, kind in ((True, "bool"), (1.0, "float64")):
        with pytest.warns(shardpack.running.Note, match=f"column label is {kind}: a component"):
            shardpack.pack([{"n": 1, "label": label}], tmp_path / kind)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        shardpack.pack([{"n": 1, "label": True}], tmp_path / "said", columns={"label": "bool"})
    assert not any("column label" in str(one.message) for one in told)
    assert shardpack.Dataset(tmp_path / "said").classes == []


def test_whole_numbers_of_numpy_in_lists_of_floats_are_kept_or_refused(tmp_path: Path) -> None:
    with pytest.raises(shardpack.DataError, match="a float cannot hold"):
        shardpack.pack([{"n": [np.int64(2**53 + 1), 1.5]}], tmp_path / "refused")
    shardpack.pack([{"n": [np.int64(2**53), 1.5, float("nan")]}], tmp_path / "kept")
    assert shardpack.Dataset(tmp_path / "kept")[0].components["n.npy"][0] == 2**53
