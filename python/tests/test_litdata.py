"""Datasets of LitData, written and read by LitData itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardpack
from conftest import PHOTOS

litdata = pytest.importorskip("litdata", reason="litdata is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")


def photo(number: int) -> Any:
    return Image.open(PHOTOS[number % 10])


def of_images(number: int) -> dict[str, Any]:
    return {
        "image": photo(number),
        "label": number % 3,
        "caption": f"photo {number} ä",
        "score": number / 8,
        "flag": number % 2 == 0,
        "embedding": np.arange(number, number + 5, dtype=np.float32),
        "boxes": torch.arange(number % 4 * 4, dtype=torch.float64).reshape(-1, 4),
        "blob": bytes([number, 0, 255]),
        "mask": np.full((3, 2), number, np.int16),
    }


def of_values(number: int) -> tuple[Any, ...]:
    return (torch.arange(number + 1), number, {"x": np.float32([number] * 2), "words": f"text {number}"})


def written(folder: Path, sample: Any, compression: str | None) -> list[Any]:
    """Writes 20 samples, and returns them as LitData reads them."""
    arguments: dict[str, Any] = {"num_workers": 1, "chunk_size": 6, "verbose": False}
    if compression is not None:
        arguments.update(compression="zstd", compression_level=compression)
    litdata.optimize(fn=sample, inputs=list(range(20)), output_dir=str(folder), **arguments)
    dataset = litdata.StreamingDataset(str(folder))
    return [dataset[number] for number in range(len(dataset))]


@pytest.mark.parametrize("compression", [None, "batch", "chunk"])
def test_images_with_values_beside_them(tmp_path: Path, compression: str | None) -> None:
    expected = written(tmp_path / "chunks", of_images, compression)
    report = shardpack.convert(tmp_path / "chunks", tmp_path / "packed", order="source")
    assert report.ok and report.datasets[0]["samples"] == len(expected) == 20
    # LitData splits the inputs among its workers: the label tells which sample it is.
    for sample, other in zip(shardpack.Dataset(tmp_path / "packed"), expected):
        found = sample.components
        number = round(float(other["score"]) * 8)
        assert sample.bytes == PHOTOS[number % 10].read_bytes() and sample.label == other["label"]
        assert np.array_equal(found["embedding.npy"], np.asarray(other["embedding"]))
        assert found["boxes.npy"].dtype == np.float64 and np.array_equal(found["boxes.npy"], other["boxes"].numpy())
        assert found["mask.npy"].dtype == np.int16 and np.array_equal(found["mask.npy"], other["mask"])
        assert found["flag.npy"] == other["flag"]
        assert (found["caption"], found["score"], found["blob"]) == (
            other["caption"].encode(),
            str(other["score"]).encode(),
            other["blob"],
        )
    assert shardpack.verify(tmp_path / "packed", against=[tmp_path / "chunks"]).ok


def test_values_of_a_tuple(tmp_path: Path) -> None:
    expected = written(tmp_path / "chunks", of_values, None)
    options = {"order": "source", "format": "mds", "label_feature": "1"}
    assert shardpack.convert(tmp_path / "chunks", tmp_path / "packed", **options).ok
    for sample, (first, label, inner) in zip(shardpack.Dataset(tmp_path / "packed"), expected):
        assert np.array_equal(sample.components["0.npy"], first.numpy()) and sample.label == label
        assert np.array_equal(sample.components["2_x.npy"], inner["x"]), sample.components
        assert sample.components["2_words.txt"] == inner["words"]


def test_a_missing_chunk_and_a_damaged_chunk_are_named(tmp_path: Path) -> None:
    written(tmp_path / "chunks", of_images, None)
    chunk = tmp_path / "chunks/chunk-0-1.bin"
    content = chunk.read_bytes()
    chunk.unlink()
    report = shardpack.convert(tmp_path / "chunks", tmp_path / "packed")
    assert not report.ok and "index.json names it, with 6 samples" in str(report.document["bad"]), report.document
    chunk.write_bytes(content[:-7])
    report = shardpack.convert(tmp_path / "chunks", tmp_path / "packed", force=True)
    assert not report.ok and "reaches beyond the end" in str(report.document["bad"]), report.document
    assert not (tmp_path / "packed/manifest.json").exists()
