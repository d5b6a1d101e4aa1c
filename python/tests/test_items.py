"""Samples as they come out: items of a function, typed components, native arrays."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import shardpack
from conftest import make_tree, numbers_of


def test_items_are_samples_with_their_components(tmp_path: Path) -> None:
    make_tree(tmp_path / "photos", 6, 2)
    for number, image in enumerate(sorted((tmp_path / "photos").rglob("*.jpg"))):
        image.with_suffix(".txt").write_text(f"ü {number}")
        image.with_suffix(".json").write_text(json.dumps({"boxes": [[number, 2.5]], "nothing": None}))
    shardpack.pack(tmp_path / "photos", tmp_path / "packed", with_=["txt", "json"])
    dataset = shardpack.Dataset(tmp_path / "packed")
    samples = {sample.number: sample for sample in dataset}
    assert sorted(sample.components["txt"] for sample in dataset) == [f"ü {number}" for number in range(6)]

    def told(item: shardpack.Item) -> dict[str, object]:
        sample = samples[item.number]
        assert (item.key, item.path, item.class_name) == (sample.key, sample.path, sample.class_name)
        assert (item.size, item.kind, item.components) == (sample.size, sample.kind, sample.components)
        assert (item.label, item.bytes) == (sample.label, sample.bytes) and (item.image() == sample.image()).all()
        return {"text": item.components["txt"], "boxes": item.components["json"]["boxes"]}

    names = ["txt", "json"]
    made = shardpack.Loader(tmp_path / "packed", 4, sample_transform=told, components=names, output="numpy")
    texts = [text for batch in made for text, own in zip(batch["image"]["text"], batch["txt"]) if text == own]
    assert sorted(texts) == [f"ü {number}" for number in range(6)]
    for batch in shardpack.Loader(tmp_path / "packed", 4, components=names, raw=True, output="numpy"):
        for text, meta, number in zip(batch["txt"], batch["json"], batch.samples):
            assert text.decode() == samples[number].components["txt"]
            assert json.loads(meta) == samples[number].components["json"]
    raw = shardpack.Dataset(tmp_path / "packed", raw=True)
    assert raw[0].components["txt"].decode() == dataset[0].components["txt"]
    assert pickle.loads(pickle.dumps(raw))[0].components == raw[0].components


def test_items_and_samples_without_a_label_have_none(tmp_path: Path) -> None:
    make_tree(tmp_path / "photos", 6, 2)
    shardpack.pack(tmp_path / "photos", tmp_path / "packed", no_labels=True)
    made = shardpack.Loader(tmp_path / "packed", 6, sample_transform=lambda item: item, collate_fn=list)
    items, _ = next(iter(made))
    samples = shardpack.Dataset(tmp_path / "packed").get_many([item.number for item in items])
    assert {(one.label, one.class_name) for one in [*items, *samples]} == {(None, None)}
    assert [one._repr_html_() for one in items] == [one._repr_html_() for one in samples]


def test_text_and_json_that_are_none_are_bad_samples(tmp_path: Path) -> None:
    make_tree(tmp_path / "photos", 6, 1)
    for number, image in enumerate(sorted((tmp_path / "photos").rglob("*.jpg"))):
        image.with_suffix(".txt").write_bytes(b"fine" if number != 2 else b"\xff\xfe")
        image.with_suffix(".json").write_text("{}" if number != 4 else "{'a': 1}")
    shardpack.pack(tmp_path / "photos", tmp_path / "packed", with_=["txt", "json"])
    for name, says in (("txt", "not UTF-8"), ("json", "line 1 column 2")):
        with pytest.raises(shardpack.DataError, match=f"component.*{name}.*{says}"):
            numbers_of(shardpack.Loader(tmp_path / "packed", 6, components=[name], output="numpy"))
        made = shardpack.Loader(tmp_path / "packed", 6, components=[name], on_bad="skip", output="numpy")
        assert len(numbers_of(made)) == 5 and len(made.receipt().skipped) == 1
        number = made.receipt().skipped[0]["sample"]
        with pytest.raises(shardpack.DataError, match=f"component.*{name}"):
            shardpack.Dataset(tmp_path / "packed")[number]
        assert len(numbers_of(shardpack.Loader(tmp_path / "packed", 6, components=[name], raw=True))) == 6


def test_native_arrays_say_what_they_are(packed: Path) -> None:
    array = shardpack.decode(shardpack.Dataset(packed)[0].bytes)
    pixels = np.asarray(array)
    assert array.shape == pixels.shape and array.dtype == np.uint8 and len(array) == len(pixels)
    assert repr(array) == "Array(uint8[{},{},{}])".format(*pixels.shape)
    assert np.array_equal(np.from_dlpack(array), pixels)
    floats = np.array(array, dtype=np.float32)
    assert floats.dtype == np.float32 and np.array_equal(floats, pixels)
