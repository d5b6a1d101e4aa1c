"""Components whose length differs from sample to sample: one form of thing in every batch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack


def boxes_of(number: int) -> Any:
    return np.arange(4 * (number % 3), dtype=np.float32).reshape(-1, 4) + number


def rows(lacks: bool = False) -> Iterator[dict[str, Any]]:
    for number in range(20):
        row = {"boxes": boxes_of(number), "ids": np.full(number % 3, number), "age": np.float32(number + 0.5)}
        yield {name: value for name, value in row.items() if not (lacks and number % 2)} | {"text": str(number)}


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("ragged")
    shardpack.pack(rows(), at / "packed", format="mds")
    return at / "packed"


@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_every_batch_has_rows_and_offsets(boxes: Path, batch_size: int) -> None:
    seen = 0
    for batch in shardpack.Loader(boxes, batch_size, output="numpy", components=["boxes.npy", "ids.npy", "text.txt"]):
        ragged, ids = batch["boxes.npy"], batch["ids.npy"]
        numbers = [int(text) for text in batch["text.txt"]]
        assert isinstance(ragged, shardpack.Ragged) and len(ragged) == len(ids) == len(numbers)
        assert (ragged.values.dtype, ragged.values.shape[1:], ragged.offsets.dtype) == (np.float32, (4,), np.int64)
        for number, one, own, got in zip(numbers, ragged, ids.to_list(), ragged.to_list()):
            assert np.array_equal(one, boxes_of(number)) and np.array_equal(one, got)
            assert np.array_equal(own, np.full(number % 3, number))
        padded = ragged.padded(-1)
        assert padded.shape == (len(numbers), max(number % 3 for number in numbers), 4)
        for number, one, length in zip(numbers, padded, ragged.lengths):
            assert np.array_equal(one[:length], boxes_of(number)) and (one[length:] == -1).all()
        seen += len(numbers)
    assert seen == 20


def test_rows_are_indexed_sliced_and_pickled() -> None:
    ragged = shardpack.Ragged(np.arange(6).reshape(3, 2), np.array([0, 2, 2, 3]))
    assert [one.tolist() for one in ragged] == [[[0, 1], [2, 3]], [], [[4, 5]]]
    assert ragged[-1].tolist() == [[4, 5]] and ragged[1].shape == (0, 2)
    part = ragged[1:]
    assert isinstance(part, shardpack.Ragged) and part.offsets.tolist() == [0, 0, 1] and part[1].tolist() == [[4, 5]]
    assert len(ragged[3:]) == 0 and ragged[3:].padded().shape == (0, 0, 2)
    again = pickle.loads(pickle.dumps(ragged))
    assert np.array_equal(again.values, ragged.values) and np.array_equal(again.offsets, ragged.offsets)
    assert repr(ragged) == "Ragged(3 × int64[n, 2], 3 rows)"
    joined = shardpack.Ragged.of([np.array([1, 2]), None, np.array([3])])
    assert joined.values.tolist() == [1, 2, 3] and joined.offsets.tolist() == [0, 2, 2, 3]
    for offsets in ([0, 2, 9], [0, 3, 2, 5], [1, 3, 5], [0, 4], [], [[0, 5]]):
        with pytest.raises(ValueError, match="ascend from 0 to the 5 rows"):
            shardpack.Ragged(np.arange(5), np.array(offsets, np.int64))
    for number in (3, -4):
        with pytest.raises(IndexError):
            ragged[number]
    with pytest.raises(ValueError, match="consecutive"):
        ragged[::2]


def test_what_samples_lack_is_none(tmp_path: Path) -> None:
    shardpack.pack(rows(lacks=True), tmp_path / "packed", format="mds")
    names = ["boxes.npy", "age.npy", "text.txt"]
    for size in (1, 4):
        for batch in shardpack.Loader(tmp_path / "packed", size, output="numpy", components=names):
            for text, one, age in zip(batch["text.txt"], batch["boxes.npy"], batch["age.npy"]):
                assert one is None if int(text) % 2 else np.array_equal(one, boxes_of(int(text)))
                assert age is None if int(text) % 2 else age == int(text) + 0.5


def test_torch_has_tensors_and_nested_tensors(boxes: Path) -> None:
    torch = pytest.importorskip("torch")
    batch = next(iter(shardpack.Loader(boxes, 20, output="torch", shuffle=False, components=["boxes.npy", "age.npy"])))
    ragged = batch["boxes.npy"]
    assert ragged.values.dtype == torch.float32 and ragged.offsets.dtype == torch.int64
    assert batch["age.npy"].shape == (20,)
    plain = ragged.padded(7).numpy()
    assert np.array_equal(plain, shardpack.Ragged(ragged.values.numpy(), ragged.offsets.numpy()).padded(7))
    assert [len(one) for one in ragged.nested().unbind()] == ragged.lengths.tolist()
    moved = ragged.to("cpu", dtype=torch.float64)
    assert moved.values.dtype == torch.float64 and moved.offsets.dtype == torch.int64
