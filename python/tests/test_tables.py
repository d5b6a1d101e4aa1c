"""Rows of tables and datasets of other libraries: pyarrow, pandas, Hugging Face, torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from conftest import PHOTOS, numbered

PHOTO = PHOTOS[0].read_bytes()


def test_tables_are_rows(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"x": [1, 2, 3], "text": ["a", None, "c"], "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    shardpack.pack(table, tmp_path / "out", order="source")
    found = [sample.components for sample in shardpack.Dataset(tmp_path / "out")]
    assert [int(one["x.npy"]) for one in found] == [1, 2, 3]
    assert [one.get("text.txt") for one in found] == ["a", None, "c"]
    np.testing.assert_array_equal(found[1]["v.npy"], [3.0, 4.0])


def test_tables_of_pandas_are_rows(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [0.5, float("nan"), 2], "text": ["a", None, "c"], "y": [1, 2, 3]})
    shardpack.pack(frame, tmp_path / "out", order="source")
    found = [sample.components for sample in shardpack.Dataset(tmp_path / "out")]
    assert [one.get("text.txt") for one in found] == ["a", None, "c"]
    np.testing.assert_array_equal([one["x.npy"].item() for one in found], [0.5, float("nan"), 2])


def test_a_dataset_of_hugging_face_keeps_its_images_and_classes(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["zebra", "ape"])})
    images = [numbered(PHOTO, number) for number in range(4)]
    rows = {"image": [{"bytes": image, "path": None} for image in images], "label": [0, 1, 0, 1]}
    shardpack.pack(datasets.Dataset.from_dict(rows, features=features), tmp_path / "out", order="source")
    packed = shardpack.Dataset(tmp_path / "out")
    assert packed.classes == ["zebra", "ape"]
    assert {bytes(sample.bytes): sample.label for sample in packed} == dict(zip(images, [0, 1, 0, 1]))


def test_a_dataset_of_torch_is_rows(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Squares(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 5

        def __getitem__(self, number: int) -> dict[str, Any]:
            return {"x": torch.full((2, 3), float(number)), "label": number % 2}

    shardpack.pack(Squares(), tmp_path / "out", order="source")
    packed = shardpack.Dataset(tmp_path / "out")
    assert len(packed) == 5
    assert {(sample.components["x.npy"][0, 0].item() % 2, sample.label) for sample in packed} == {(0.0, 0), (1.0, 1)}
    assert packed[0].components["x.npy"].dtype == np.float32


def test_numbers_of_tables_keep_their_dtypes(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    names = ["int8", "uint16", "float32", "float64"]
    columns = {name: pyarrow.array([1, 2], getattr(pyarrow, name)()) for name in names}
    columns["list"] = pyarrow.array([[1.5], []], pyarrow.list_(pyarrow.float32()))
    shardpack.pack(pyarrow.table(columns), tmp_path / "out", order="source")
    found = shardpack.Dataset(tmp_path / "out")[1].components
    assert {name: str(found[f"{name}.npy"].dtype) for name in names} == {name: name for name in names}
    assert found["list.npy"].dtype == np.float32 and found["list.npy"].shape == (0,)
