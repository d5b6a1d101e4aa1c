"""The samples that an epoch reads."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack


def loader(path: Any, batch_size: int = 16, **options: Any) -> shardpack.Loader:
    return shardpack.Loader(path, batch_size, output="numpy", **{"seed": 3, **options})


def numbers(made: shardpack.Loader) -> list[int]:
    """The samples of an epoch, in its order."""
    return [int(number) for batch in made for number in batch.samples]


def test_one_pass_reads_one_epoch(packed: Path) -> None:
    known = loader(packed, epochs=1)
    assert len(numbers(known)) == 300
    made = loader(packed)
    first = numbers(made)
    # The read-ahead of a known number of epochs would begin at once.
    time.sleep(0.2)
    assert made.stats()["read_bytes"] == known.stats()["read_bytes"] > 0
    second = numbers(made)
    assert made.receipt().proves(made.expected(1))
    ahead = loader(packed, epochs=2)
    assert [numbers(ahead), numbers(ahead)] == [first, second]
    assert ahead.stats()["read_bytes"] == made.stats()["read_bytes"]


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows of numbers, text and JSON in the forms that components have; every seventh lacks `score`."""
    folder = tmp_path_factory.mktemp("scored") / "packed"

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(400):
            row: dict[str, Any] = {
                "x": np.full(3, number, np.float32),
                "aesthetic": np.float32(number % 97 / 10),
                "tokens": number % 50,
                "caption": f"cat {number % 4}",
                "meta": {
                    "score": number % 5,
                    "tags": ["a"] * (number % 3),
                    "source": {"name": "web" if number % 3 else "lab"},
                },
                "spans": np.full((number % 5, 2), number, np.int16),
                "label": number % 4,
            }
            if number % 7:
                row["score"] = number / 3
            yield row

    assert shardpack.pack(rows(), folder).ok
    return folder


def test_a_condition_selects_as_numpy_does(scored: Path) -> None:
    dataset = shardpack.Dataset(scored)
    samples = [dataset[number] for number in range(len(dataset))]

    def value(sample: Any, name: str) -> Any:
        return next((value for key, value in sample.components.items() if key.split(".")[0] == name), None)

    for condition, naive in [
        ("aesthetic > 5", lambda one: value(one, "aesthetic") > np.float32(5)),
        ("aesthetic >= 5.1", lambda one: value(one, "aesthetic") >= np.float32(5.1)),
        ("tokens < 10 and label in (1, 2)", lambda one: value(one, "tokens") < 10 and one.label in (1, 2)),
        ("caption = 'cat 3' or caption < 'cat 1'", lambda one: value(one, "caption") in ("cat 3", "cat 0")),
        (
            "meta.score = 2 and meta.source.name = 'web'",
            lambda one: value(one, "meta")["score"] == 2 and value(one, "meta")["source"]["name"] == "web",
        ),
        ("score > 100", lambda one: value(one, "score") is not None and value(one, "score") > 100),
        ("not score > 100", lambda one: value(one, "score") is not None and not value(one, "score") > 100),
        ("score is missing", lambda one: value(one, "score") is None),
        ("len(spans) > 0", lambda one: len(value(one, "spans")) > 0),
        (
            "1 <= len(`spans.npy`) < 4 and len(meta.tags) = 2 and len(x) in (3, 5)",
            lambda one: 1 <= len(value(one, "spans")) < 4 and len(value(one, "meta")["tags"]) == 2,
        ),
        ("len(meta.nothing) is missing and label = 1", lambda one: one.label == 1),
    ]:
        expected = [sample.number for sample in samples if naive(sample)]
        made = loader(scored, where=condition, epochs=1)
        assert 0 < made.samples_of_epoch == len(expected) < 400, condition
        assert f"samples={len(expected)}" in repr(made)
        assert sorted(numbers(made)) == expected, condition
        assert made.receipt().proves(made.expected(0))


def test_choices_select_what_all_of_them_select(packed: Path) -> None:
    def chosen(**options: Any) -> set[int]:
        return set(numbers(loader(packed, epochs=1, **options)))

    shares = [(0.0, 0.8), (0.8, 1.0)]
    cats = chosen(classes=["class01", 4])
    assert len(cats) == 60
    train, test = (chosen(classes=["class01", 4], part=part, part_seed=7) for part in shares)
    assert train | test == cats and not train & test
    assert train == cats & chosen(part=(0.0, 0.8), part_seed=7)
    where = "class in ('class01', 'class04', 'class05')"
    assert chosen(where=where, classes=["class01", "class04"], part=(0.0, 0.8), part_seed=7) == train
    assert chosen(where="width >= 1", range=(10, 20), samples=[5, 12, 19]) == {12, 19}
    parts = [shardpack.Part(packed, where="label = 3"), shardpack.Part(packed, where="label = 4", total=10)]
    made = loader(parts, epochs=1)
    assert made.samples_of_epoch == 40 and len(numbers(made)) == 40


def test_a_condition_is_evaluated_once(scored: Path, tmp_path: Path) -> None:
    packed = shutil.copytree(scored, tmp_path / "packed")
    made = loader(packed, where="aesthetic > 5")
    state = made.state_dict()
    for shard in packed.glob("*.tar"):
        shard.unlink()
    made.load_state_dict(state)
    assert made.samples_of_epoch < 400
    with pytest.raises(shardpack.Error):
        loader(packed, where="aesthetic > 5")


def test_a_condition_that_does_not_fit_is_refused(scored: Path) -> None:
    for where, said in [
        ("aesthetics > 5", 'no column "aesthetics"; there are width, height, .*aesthetic'),
        ("aesthetic > 'good'", '"good" is text, and aesthetic.* is a number'),
        ("aesthetic >", "character 12: the end, and expected a column, a number"),
        ("caption > 5", '"cat ." is no number'),
        ("x > 5", "x.npy is an array of several values"),
        ("meta.tags = 'a'", "meta.json has lists"),
        ("aesthetic > 100", "no samples"),
        ("len(label) > 5", "len.label.: a single value has no length"),
        ("len(caption) > 5", "len.caption.*: neither an array nor a list"),
        ("len(spans > 5", "character 11: expected .$"),
        ("len(5) > 5", "character 5: expected a component"),
        (5, "text is wanted"),
    ]:
        with pytest.raises(shardpack.Error, match=said):
            loader(scored, where=where)
    with pytest.raises(shardpack.UsageError, match="where of a mix: each Part has its own"):
        loader([shardpack.Part(scored)], where="aesthetic > 5")


def test_labels_of_chosen_classes_are_renumbered(packed: Path) -> None:
    names = ["class07", "class02", "class05"]
    options = {"classes": names, "part": (0.0, 0.8), "epochs": 1}
    plain, made = loader(packed, **options), loader(packed, renumber=True, **options)
    assert len(plain.classes) == 10 and made.classes == names
    for old, new in zip(plain, made):
        assert list(old.samples) == list(new.samples)
        assert [int(label) for label in new[1]] == [[7, 2, 5].index(int(label)) for label in old[1]]
    # The same after resuming, and in a mix, whose classes are merged by name.
    again = loader(packed, renumber=True, **options)
    again.load_state_dict(loader(packed, renumber=True, **options).state_dict())
    assert {int(label) for _, labels in again for label in labels} == {0, 1, 2}
    parts = [shardpack.Part(packed, classes=["class03", "class01"]), shardpack.Part(packed, classes=["class09"])]
    mixed = loader(parts, renumber=True, epochs=1)
    assert mixed.classes == ["class03", "class01", "class09"]
    dataset = shardpack.Dataset(packed)
    pairs = [
        (dataset[int(number)].label, int(label)) for batch in mixed for number, label in zip(batch.samples, batch[1])
    ]
    assert set(pairs) == {(3, 0), (1, 1), (9, 2)} and len(pairs) == 90
    with pytest.raises(shardpack.UsageError, match="only if classes are chosen"):
        loader(packed, renumber=True)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_resumed_epoch_is_proved_whole(packed: Path, mapped: bool) -> None:
    options = {"sample_transform": lambda item: item.number} if mapped else {}

    def ranks(world_size: int) -> list[shardpack.Loader]:
        return [loader(packed, rank=rank, world_size=world_size, **options) for rank in range(world_size)]

    def stopped(loaders: list[shardpack.Loader], batches: int) -> list[dict[str, Any]]:
        for one in loaders:
            for _ in zip(range(batches), one):
                pass
        return [json.loads(json.dumps(one.state_dict())) for one in loaders]

    states = stopped(ranks(2), 3)
    assert states[0]["shardpack"] == states[1]["shardpack"] and states[0]["receipt"]["samples"] == 48
    assert "receipt" not in loader(packed).state_dict()
    # Interrupted twice, and the second time in more ranks.
    more = ranks(2)
    for one, state in zip(more, states):
        one.load_state_dict(state)
        assert one.receipt().samples == 48
    states = stopped(more, 2)
    assert [state["receipt"]["samples"] for state in states] == [80, 80]
    last = ranks(3)
    for one, state in zip(last, [*states, states[0]]):
        one.load_state_dict(state)
        list(one)
    expected = last[0].expected(0)
    assert shardpack.Receipt.join(one.receipt() for one in last).proves(expected)
    # One state for all ranks: the receipts of the others are joined by hand.
    again = ranks(2)
    for one in again:
        one.load_state_dict(states[0])
        list(one)
    joined = again[0].receipt() + again[1].receipt()
    assert not joined.proves(expected)
    other = shardpack.Receipt.of_state(states[1])
    assert other is not None and (joined + other).proves(expected)
    # The next epoch begins anew, and so does the same one.
    list(again[0])
    assert again[0].receipt().samples == 150 and again[0].receipt().epoch == 1
    again[0].set_epoch(0)
    list(again[0])
    assert again[0].receipt().samples == 150
    assert "receipt" not in again[0].state_dict()


def test_the_receipt_in_a_state_is_that_of_its_batch(packed: Path) -> None:
    states: list[dict[str, Any]] = []

    def told(batch: Any) -> Any:
        states.append(made.state_dict())
        return batch

    made = loader(packed, batch_transform=told)
    made.load_state_dict(next_state(loader(packed)))
    for _ in zip(range(3), made):
        pass
    assert [state["receipt"]["samples"] for state in states] == [16, 32, 48]
    assert [state["shardpack"]["position"] for state in states] == [16, 32, 48]
    damaged = {**states[0], "receipt": {**states[0]["receipt"], "identities": "x"}}
    with pytest.raises(shardpack.DataError):
        made.load_state_dict(damaged)


def next_state(made: shardpack.Loader) -> dict[str, Any]:
    """The state after the first batch."""
    next(iter(made))
    return made.state_dict()


def test_weights_of_a_mix_change_by_epoch(packed: Path, few: Path) -> None:
    parts = [shardpack.Part(packed, weight=1), shardpack.Part(few, weight={3: 3, 0: 0, 1: 1})]
    made = loader(parts, epoch_samples=200)
    of_few = [[int(source) for batch in made for source in batch.sources].count(1) for _ in range(4)]
    assert of_few == [0, 100, 100, 150]
    made.set_epoch(1)
    assert [int(source) for batch in made for source in batch.sources].count(1) == 100
    for weight, said in [
        ({1: 1}, "ascend from 0"),
        ({0: -1}, "0 or more"),
        ({0: 0}, "above 0"),
        ({"0": 1}, "whole number"),
    ]:
        with pytest.raises(shardpack.UsageError, match=said):
            loader([shardpack.Part(packed, weight=1), shardpack.Part(few, weight=weight)], epoch_samples=200)


def test_a_state_is_of_its_renumbered_labels(few: Path) -> None:
    names = shardpack.Dataset(few).classes
    options: dict[str, Any] = {"renumber": True, "output": "numpy"}
    state = shardpack.Loader(few, 4, classes=names, **options).state_dict()
    shardpack.Loader(few, 4, classes=names, **options).load_state_dict(state)
    for other in ({"classes": names[::-1], **options}, {"classes": names, "output": "numpy"}):
        with pytest.raises(shardpack.UsageError):
            shardpack.Loader(few, 4, **other).load_state_dict(state)
