"""Batches of samples of similar length: little padding, and every guarantee of an epoch."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack
from conftest import numbers_of

SAMPLES = 3000
LENGTHS = np.random.default_rng(7).lognormal(4, 0.8, SAMPLES).clip(1, 2000).astype(int)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays of log-normal length, and the length in other forms; every ninth sample lacks `score`."""
    folder = tmp_path_factory.mktemp("tokens") / "packed"

    def rows() -> Iterator[dict[str, Any]]:
        for number, length in enumerate(LENGTHS.tolist()):
            row = {
                "tokens": np.full(length, number % 1000, np.int32),
                "seconds": np.float32(length / 100),
                "count": length,
                "caption": "a" * length,
                "meta": {"words": ["w"] * length, "length": length, "name": "x"},
                "label": number % 3,
            }
            yield row if number % 9 == 0 else {**row, "score": -float(length)}

    assert shardpack.pack(rows(), folder, format="mds", shard_size="256KiB", order="source").ok
    return folder


def loader(path: Any, batch_size: int = 16, **options: Any) -> shardpack.Loader:
    return shardpack.Loader(path, batch_size, **{"output": "numpy", "components": ["tokens.npy"], "seed": 3, **options})


def batches_of(made: shardpack.Loader) -> list[list[int]]:
    return [[int(number) for number in batch.samples] for batch in made]


def padding(batches: list[list[int]]) -> float:
    """Items that padding adds, for each item of a sample."""
    added = sum(int(LENGTHS[batch].max()) * len(batch) - int(LENGTHS[batch].sum()) for batch in batches)
    return added / int(LENGTHS[np.concatenate(batches)].sum())


@pytest.mark.parametrize(
    "by", ["tokens", "tokens.npy", "seconds", "count", "caption", "meta.words", "meta.length", "`count`"]
)
def test_batches_are_of_similar_length(tokens: Path, by: str) -> None:
    made = loader(tokens, bucket_by=by)
    found = batches_of(made)
    assert sorted(sum(found, [])) == list(range(SAMPLES)) and made.receipt().proves(made.expected(0))
    assert padding(found) < padding(batches_of(loader(tokens))) / 10
    assert {len(batch) for batch in found[:-1]} == {16} and len(found) == len(made)
    assert batches_of(made) != found, "the next epoch has another order"


def test_arrays_of_a_batch_are_those_of_its_samples(tokens: Path) -> None:
    for batch in loader(tokens, bucket_by="tokens"):
        for number, array in zip(batch.samples, batch["tokens.npy"]):
            assert len(array) == LENGTHS[number] and (array == number % 1000).all()


def test_larger_windows_leave_less_padding(tokens: Path) -> None:
    of_windows = [padding(batches_of(loader(tokens, bucket_by="tokens", bucket_batches=n))) for n in (2, 8, 32)]
    assert of_windows == sorted(of_windows, reverse=True) and of_windows[0] < padding(batches_of(loader(tokens)))
    # Stored order: lengths ascend inside each window.
    stored = batches_of(loader(tokens, bucket_by="tokens", bucket_batches=10, shuffle=False))
    ascending = [LENGTHS[sum(stored[at : at + 9], [])].tolist() for at in (0, 20, 100)]
    assert any(lengths == sorted(lengths) for lengths in ascending) and padding(stored) < 1
    full = batches_of(loader(tokens, bucket_by="tokens", shuffle="full"))
    assert sorted(sum(full, [])) == list(range(SAMPLES)) and padding(full) < 0.5


def test_threads_and_processes_change_nothing(tokens: Path) -> None:
    options: dict[str, Any] = {"bucket_by": "tokens", "bucket_batches": 8}
    expected = batches_of(loader(tokens, **options, threads=1, read_threads=1))
    assert batches_of(loader(tokens, **options, threads=4, read_threads=7, epochs=1)) == expected
    made = loader(tokens, **options)
    batches = iter(made)
    first = [[int(number) for number in next(batches).samples] for _ in range(11)]
    copy = pickle.loads(pickle.dumps(loader(tokens, **options)))
    copy.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert first + batches_of(copy) == expected


@pytest.mark.parametrize("last", ["short", "drop", "pad"])
def test_a_run_resumes_at_each_batch(tokens: Path, last: str) -> None:
    options: dict[str, Any] = {"bucket_by": "tokens", "bucket_batches": 6, "last": last, "range": (0, 500)}
    made = loader(tokens, **options)
    states, expected = [made.state_dict()], []
    for batch in made:
        expected.append([int(number) for number in batch.samples])
        states.append(made.state_dict())
    assert len(expected) == len(made)
    for at, state in enumerate(states[:-1]):
        again = loader(tokens, **options)
        again.load_state_dict(state)
        assert again.batches_left == len(expected) - at
        assert batches_of(again) == expected[at:]
        assert again.receipt().proves(again.expected(0))


def test_ranks_take_equal_steps_and_resume_as_other_ranks(tokens: Path) -> None:
    options: dict[str, Any] = {"bucket_by": "tokens", "bucket_batches": 8}
    ranks = [loader(tokens, rank=rank, world_size=3, **options) for rank in range(3)]
    each = [batches_of(one) for one in ranks]
    assert len({len(batches) for batches in each}) == 1
    assert sorted(sum(sum(each, []), [])) == list(range(SAMPLES))
    assert sum((one.receipt() for one in ranks[1:]), ranks[0].receipt()).proves(ranks[0].expected(0))
    assert max(map(padding, each)) < 0.7
    # In the middle of a window, with other ranks and batches.
    one = loader(tokens, rank=0, world_size=3, **options)
    batches = iter(one)
    for _ in range(5):
        next(batches)
    seen = sum(sum((batches[:5] for batches in each), []), [])
    for rank in range(2):
        other = loader(tokens, 10, rank=rank, world_size=2, **options)
        other.load_state_dict({"shardpack": one.state_dict()["shardpack"]})
        seen += numbers_of(other)
    assert sorted(seen) == list(range(SAMPLES))


def test_selections_and_mixes_have_batches_of_similar_length(tokens: Path) -> None:
    for options, wanted in [
        ({"where": "count > 40"}, np.flatnonzero(LENGTHS > 40).tolist()),
        ({"samples": [5, 9, 77, 1000, 2999]}, [5, 9, 77, 1000, 2999]),
        ({"range": (100, 900), "where": "label = 1"}, [n for n in range(100, 900) if n % 3 == 1]),
        ({"part": (0.2, 0.4), "bucket_batches": 3}, None),
        ({"classes": [2], "balance": 0.5}, None),
    ]:
        made = loader(tokens, 8, bucket_by="tokens", **options)
        found = batches_of(made)
        assert made.receipt().proves(made.expected(0)) and padding(found) < 1.5
        if wanted is not None:
            assert sorted(sum(found, [])) == wanted
    parts = [shardpack.Part(tokens, weight=2), shardpack.Part(tokens, weight=1, range=range(1000))]
    mixed = loader(parts, bucket_by="tokens", epoch_samples=4500)
    found = batches_of(mixed)
    assert len(sum(found, [])) == 4500 and mixed.receipt().proves(mixed.expected(0)) and padding(found) < 0.3


def test_samples_without_a_length_are_the_shortest(tokens: Path) -> None:
    made = loader(tokens, 100, bucket_by="score", bucket_batches=30, shuffle=False)
    order = numbers_of(made)
    assert sorted(order) == list(range(SAMPLES))
    lacking = [number % 9 == 0 for number in order]
    assert lacking == sorted(lacking, reverse=True)
    # Lengths are negative, and the longest sample is the first of those.
    lengths = LENGTHS[[number for number in order if number % 9]].tolist()
    assert lengths == sorted(lengths, reverse=True)


def test_images_of_similar_aspect_come_together(packed: Path) -> None:
    dataset = shardpack.Dataset(packed)
    aspects = np.array([dataset[number].size[0] / dataset[number].size[1] for number in range(300)])

    def spread(**options: Any) -> float:
        made = shardpack.Loader(packed, 10, transform="train", output="numpy", **options)
        found = batches_of(made)
        assert sorted(sum(found, [])) == list(range(300)) and made.receipt().proves(made.expected(0))
        return sum(float(np.ptp(aspects[batch])) for batch in found)

    assert spread(bucket_by="aspect") < spread() / 3


@pytest.mark.parametrize("last", ["short", "drop", "pad"])
@pytest.mark.parametrize("limit", [2000, 400, 10**9])
def test_batches_are_within_a_limit_of_tokens(tokens: Path, limit: int, last: str) -> None:
    options: dict[str, Any] = {"bucket_by": "tokens", "bucket_batches": 8, "batch_tokens": limit, "last": last}
    ranks = [loader(tokens, 50, rank=rank, world_size=2, range=(0, 1501), **options) for rank in range(2)]
    for epoch in range(2):
        lengths = [len(one) for one in ranks]
        each = [batches_of(one) for one in ranks]
        assert lengths == [len(batches) for batches in each] and len(set(lengths)) == 1
        for one, other in zip(*each):
            assert len(one) == len(other) <= 50
            for batch in (one, other):
                assert len(batch) == 1 or len(batch) * LENGTHS[batch].max() <= limit
        assert (ranks[0].receipt() + ranks[1].receipt()).proves(ranks[0].expected(epoch))
        seen = set(sum(sum(each, []), []))
        assert len(seen) == 1501 - (last == "drop")
    sizes = [len(batch) for batch in each[0]]
    assert limit > 2000 or len(set(sizes)) > 5


def test_lengths_with_fractions_are_not_rounded(tokens: Path) -> None:
    seconds = (LENGTHS / np.float32(100)).astype(np.float32)
    batches = batches_of(loader(tokens, 500, bucket_by="seconds", batch_tokens=20))
    assert sorted(sum(batches, [])) == list(range(SAMPLES))
    padded = [float(seconds[batch].max()) * len(batch) for batch in batches if len(batch) > 1]
    assert max(padded) <= 20 and sum(padded) > 0.8 * 20 * len(padded)


def test_a_run_by_tokens_resumes_at_each_batch_and_counts_them(tokens: Path) -> None:
    options: dict[str, Any] = {"bucket_by": "tokens", "bucket_batches": 6, "batch_tokens": 1500, "range": (0, 700)}
    made = loader(tokens, 30, **options)
    assert (len(made), made.batches_left) == (len(batches_of(loader(tokens, 30, **options))),) * 2
    for epoch in range(2):
        states, expected, count = [made.state_dict()], [], len(made)
        for batch in made:
            expected.append([int(number) for number in batch.samples])
            states.append(made.state_dict())
            # Of this epoch.
            assert len(made) == count
        assert count == len(expected)
        for at, state in list(enumerate(states[:-1]))[epoch::3]:
            again = pickle.loads(pickle.dumps(loader(tokens, 30, **options)))
            again.load_state_dict(state)
            assert again.batches_left == count - at and len(again) == count
            assert batches_of(again) == expected[at:]
    state = states[3]
    for other, said in [
        (loader(tokens, 31, **options), "batch_size=30, and the loader has 1 ranks and 31"),
        (loader(tokens, 30, **options, rank=0, world_size=2), "the loader has 2 ranks"),
        (loader(tokens, 30, **{**options, "batch_tokens": 7}), "batch_tokens of the state: 1500"),
    ]:
        with pytest.raises(shardpack.UsageError, match=said):
            other.load_state_dict(state)


def test_what_is_not_possible_is_refused(tokens: Path, packed: Path) -> None:
    for options, said in [
        ({"bucket_by": "nothing"}, "bucket_by: no column 'nothing'|bucket_by: no column \"nothing\""),
        ({"bucket_by": "class"}, "bucket_by: class is text"),
        ({"bucket_by": "meta"}, "has neither a number nor a list"),
        ({"bucket_by": "meta.name"}, "has neither a number nor a list"),
        ({"bucket_by": "caption.length"}, "is no JSON with members"),
        ({"bucket_by": "aspect"}, "no sample has"),
        ({"bucket_by": 5}, "text is wanted"),
        ({"bucket_by": "tokens", "bucket_batches": 1}, "bucket_batches=1"),
        ({"bucket_by": "tokens", "bucket_batches": "many"}, "whole number"),
        ({"bucket_batches": 8}, "bucket_batches is for"),
        ({"batch_tokens": 8}, "batch_tokens is for"),
        ({"bucket_by": "tokens", "batch_tokens": 0}, "batch_tokens=0"),
        ({"bucket_by": "aspect", "batch_tokens": 10}, "bucket_by=.aspect. has none"),
        ({"bucket_by": "tokens", "batch_tokens": 10, "on_bad": "replace"}, 'replace(.|\\n)*on_bad="skip"'),
        ({"bucket_by": "tokens.x"}, "is no JSON with members"),
        ({"bucket_by": "score", "batch_tokens": 10}, "score is below 0"),
        ({"bucket_by": "tokens", "bucket_batches": 64, "memory": "64KiB"}, "too few: bucket_by has windows"),
        ({"batch_by": "tokens"}, "no option 'batch_by'"),
    ]:
        with pytest.raises(shardpack.UsageError, match=said):
            loader(tokens, **options)
    for memory in ("900KiB", "2MiB"):
        with pytest.raises(shardpack.UsageError, match="too few: bucket_by has windows") as raised:
            loader(tokens, bucket_by="tokens", bucket_batches=64, memory=memory)
        least = next(int(word) for word in str(raised.value.help).split() if word.isdigit())
        assert "a new run can have fewer bucket_batches" in str(raised.value.help)
        made = loader(tokens, bucket_by="tokens", bucket_batches=64, memory=least)
        assert len(numbers_of(made)) == SAMPLES and made.stats()["peak_run_bytes"] <= least
    state = loader(tokens, bucket_by="tokens").state_dict()
    for other in (loader(tokens), loader(tokens, bucket_by="count")):
        with pytest.raises(shardpack.UsageError, match='the state is of a run with bucket_by="tokens"') as raised:
            other.load_state_dict(state)
        assert "resume with the bucket_by" in str(raised.value.help)
    with pytest.raises(shardpack.UsageError, match="no bucket_by"):
        loader(tokens, bucket_by="count").load_state_dict(loader(tokens).state_dict())
    with pytest.raises(shardpack.UsageError, match="bucket_batches of the state: 64, and of the loader: 3") as raised:
        loader(tokens, 7, bucket_by="tokens", bucket_batches=3).load_state_dict(state)
    assert "resume without bucket_batches" in str(raised.value.help)
    # `batch_size` of a run is not an option of its windows: they stay as they were.
    again = loader(tokens, 7, bucket_by="tokens")
    again.load_state_dict(state)
    assert sorted(numbers_of(again)) == list(range(SAMPLES))


def test_workers_of_a_data_loader_divide_an_epoch(tokens: Path) -> None:
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    import shardpack.torch

    dataset = shardpack.torch.IterableDataset(
        tokens, 16, bucket_by="tokens", components=["tokens.npy"], batch_transform=lambda batch: batch.samples.tolist()
    )
    found = list(DataLoader(dataset, batch_size=None, num_workers=2))
    assert sorted(sum(found, [])) == list(range(SAMPLES)) and padding(found) < 0.5
    limited = shardpack.torch.IterableDataset(
        tokens,
        50,
        bucket_by="tokens",
        batch_tokens=2000,
        components=["tokens.npy"],
        batch_transform=lambda batch: batch.samples.tolist(),
    )
    made = DataLoader(limited, batch_size=None, num_workers=2)
    for _ in range(2):
        expected = len(made)
        assert len(list(made)) == expected
