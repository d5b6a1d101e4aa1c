"""The loader with bad samples, damaged datasets and wrong options."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import shardpack
from conftest import loader, make_tree, numbers_of
from shardpack import transforms


@contextlib.contextmanager
def shardpack_payload(packed: Path, number: int) -> Iterator[tuple[int, int]]:
    """Start and end of a sample's payload in its shard."""
    payload = shardpack.Dataset(packed)[number].bytes
    (shard,) = packed.glob("*.tar")
    start = shard.read_bytes().index(payload)
    yield start, start + len(payload)


def test_an_exception_in_a_function_of_the_callers_is_raised_and_the_loader_can_be_used_again(packed: Path) -> None:
    calls = []

    def fails(item: shardpack.Item):
        calls.append(item.number)
        if len(calls) == 40:
            raise KeyError("mine")
        return np.zeros(1)

    made = loader(packed, transform=None, sample_transform=fails)
    with pytest.raises(KeyError, match="mine"):
        list(made)
    assert sorted(numbers_of(made)) == list(range(300))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"memory": "1 parsec"},
        {"shuffle": "sideways"},
        {"last": "first"},
        {"output": "chainer"},
        {"transform": "best"},
        {"on_bad": "hope"},
        {"components": ["no"]},
        {"rank": 1},
        {"transform": [transforms.Resize(9)]},
        {"transform": [transforms.CenterCrop(9), transforms.Resize(9)]},
        {"transform": [transforms.CenterCrop(0)]},
    ],
)
def test_what_is_not_possible_is_said_at_once(packed: Path, options: dict) -> None:
    with pytest.raises(shardpack.UsageError):
        len(loader(packed, **options))
    for wrong in ({"dtype": "int3"}, {"layout": "CWH"}, {"upright": "no"}):
        with pytest.raises(shardpack.UsageError):
            transforms.Pipeline([transforms.CenterCrop(9)], **wrong)


def test_damage_is_an_error_with_a_place_or_skipped_and_named(tree: Path, tmp_path: Path) -> None:
    shardpack.pack(tree, tmp_path / "packed", shard_size="1MiB")
    dataset = shardpack.Dataset(tmp_path / "packed")
    shard = sorted((tmp_path / "packed").glob("*.tar"))[0]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    with pytest.raises(shardpack.DataError) as raised:
        list(loader(tmp_path / "packed", check_content=True))
    assert raised.value.file.endswith(shard.name) and raised.value.sample and raised.value.byte
    made = loader(tmp_path / "packed", check_content=True, on_bad="skip")
    seen = numbers_of(made)
    (bad,) = made.receipt().skipped
    assert sorted(seen + [bad["sample"]]) == list(range(300)) and "hash" in bad["reason"]
    assert made.receipt().proves(made.expected(0)) and made.stats()["skipped"] == 1 and made.receipt().samples == 299
    made = loader(tmp_path / "packed", check_content=True, on_bad="replace")
    assert len(numbers_of(made)) == 300 and made.receipt().replaced[0]["sample"] == bad["sample"]
    assert dataset[bad["sample"]].label == dataset[made.receipt().replaced[0]["by"]].label


def test_what_an_epoch_has_not_is_said(packed: Path) -> None:
    made = loader(packed, epochs=1)
    assert len(list(made)) == 19
    with pytest.raises(shardpack.UsageError, match="epoch 1 of a loader with epochs=1"):
        list(made)


def test_a_batch_whose_samples_are_all_skipped_is_empty(tree: Path, tmp_path: Path) -> None:
    shardpack.pack(tree, tmp_path / "packed")
    (shard,) = (tmp_path / "packed").glob("*.tar")
    content = bytearray(shard.read_bytes())
    with shardpack_payload(tmp_path / "packed", 7) as (start, end):
        content[start:end] = bytes(end - start)
    shard.write_bytes(content)
    for options in (
        {},
        {"transform": None},
        {"transform": None, "sample_transform": lambda item: item.image()[:4, :4]},
    ):
        made = loader(tmp_path / "packed", 1, on_bad="skip", check_content=True, **options)
        lengths = [(len(content), len(labels)) for content, labels in made]
        assert sorted(lengths) == [(0, 0)] + [(1, 1)] * 299 and len(made.receipt().skipped) == 1


def test_an_epoch_without_a_good_sample_is_an_error(tmp_path: Path) -> None:
    make_tree(tmp_path / "photos", 6, 1)
    for image in (tmp_path / "photos").rglob("*.jpg"):
        image.with_suffix(".txt").write_bytes(b"\xff")
    shardpack.pack(tmp_path / "photos", tmp_path / "packed", with_=["txt"])
    options = {"components": ["txt"], "on_bad": "skip", "transform": None}
    made = loader(tmp_path / "packed", 4, epochs=2, **options)
    for epoch in (0, 1):
        with pytest.raises(
            shardpack.DataError, match=f"epoch {epoch} has no good sample among the 6 of.*the first is sample"
        ):
            list(made)
        assert made.receipt().proves(made.expected(epoch)) and made.receipt().samples == 0
    for rank in (0, 1):
        with pytest.raises(shardpack.DataError, match="epoch 0 has no good sample among the 3"):
            list(loader(tmp_path / "packed", 4, rank=rank, world_size=2, **options))
    # Good samples before a resume are of the same epoch.
    made = loader(tmp_path / "packed", 2, **options)
    next(iter(made))
    resumed = loader(tmp_path / "packed", 2, **options)
    resumed.load_state_dict(made.state_dict())
    assert [len(batch.samples) for batch in resumed] == [0, 0]


def test_a_sample_that_is_skipped_leaves_columns_as_they_are_without_it(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    # Row 7 has another shape in column a and is damaged in column b. Values of b carry their shape because row 8 has another shape.
    rows = {
        "a": [[float(at), 0.5] if at != 7 else [7.0, 1.0, 2.0] for at in range(40)],
        "b": [[at, at + 1] if at != 8 else [8] for at in range(40)],
    }
    parquet.write_table(pyarrow.table(rows), tmp_path / "table.parquet")
    shardpack.convert(tmp_path / "table.parquet", tmp_path / "packed", format="mds")
    shard = tmp_path / "packed" / "shard.00000.mds"
    content = bytearray(shard.read_bytes())
    # In the shard, the dtype and the shape of an array precede its items.
    content[content.index(np.array([7, 8], dtype="<i8").tobytes()) - 2] = 0xFF
    shard.write_bytes(content)
    made = loader(tmp_path / "packed", 40, on_bad="skip", transform=None, components=["a.npy", "b.npy"])
    (batch,) = made
    rows = batch["a.npy"].values.reshape(39, 2)
    assert (batch["a.npy"].lengths == 2).all() and sorted(rows[:, 0]) == [*range(7), *range(8, 40)]
    assert isinstance(batch["b.npy"], shardpack.Ragged) and len(batch["b.npy"]) == 39
    (skipped,) = made.receipt().skipped
    assert "the form <i8[2]" in skipped["reason"]


def test_a_state_of_another_dataset_is_refused_and_the_loader_stays(packed: Path, arrays: Path) -> None:
    state = shardpack.Loader(arrays, 16).state_dict()
    made = loader(packed)
    with pytest.raises(shardpack.UsageError, match="another dataset"):
        made.load_state_dict(state)
    with pytest.raises(shardpack.UsageError, match="no state"):
        made.load_state_dict({})
    with pytest.raises(shardpack.DataError):
        made.load_state_dict({"shardpack": {"epoch": 1}})
    assert sorted(numbers_of(made)) == list(range(300))


def test_a_path_that_is_not_there_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    for opening in shardpack.Dataset, shardpack.Loader:
        with pytest.raises(shardpack.UsageError, match="no such folder") as raised:
            opening(tmp_path / "nowhere")
        assert raised.value.file == str(tmp_path / "nowhere")


@pytest.fixture
def damaged(tree: Path, tmp_path: Path) -> Path:
    """The photographs in one shard, with sample 7 damaged."""
    shardpack.pack(tree, tmp_path / "packed")
    (shard,) = (tmp_path / "packed").glob("*.tar")
    content = bytearray(shard.read_bytes())
    with shardpack_payload(tmp_path / "packed", 7) as (start, end):
        content[start:end] = bytes(end - start)
    shard.write_bytes(content)
    return tmp_path / "packed"


@pytest.mark.parametrize("options", [{}, {"sample_transform": lambda item: item.number}])
def test_an_iterator_goes_on_behind_an_error(damaged: Path, options: dict) -> None:
    made = loader(damaged, 4, range=(0, 20), transform=None, check_content=True, **options)
    batches, seen, errors = iter(made), [], 0
    while True:
        try:
            seen += next(batches).samples.tolist()
        except shardpack.DataError:
            errors += 1
        except StopIteration:
            break
    assert (len(seen), len(set(seen)), errors, 7 in seen) == (16, 16, 1, False)
    assert not made.receipt().proves(made.expected(0)) and made.receipt().samples == 16


def test_an_error_in_a_function_of_the_callers_costs_its_batch(few: Path) -> None:
    def fails(item: shardpack.Item) -> int:
        if item.number == 7:
            raise KeyError("mine")
        return item.number

    batches, seen = iter(loader(few, 4, transform=None, sample_transform=fails)), []
    for _ in range(6):
        with contextlib.suppress(KeyError):
            seen += next(batches, None) or ()
    assert 7 not in [number for content in seen[::2] for number in content] and len(seen) == 8
    with pytest.raises(StopIteration):
        next(batches)


def test_an_array_that_is_missing_or_empty_is_an_error_that_names_it(tree: Path, tmp_path: Path) -> None:
    photos = sorted(tree.glob("class00/*.jpg"))[:8]
    (tmp_path / "photos/a").mkdir(parents=True)
    for number, photo in enumerate(photos):
        (tmp_path / f"photos/a/{number}.jpg").write_bytes(photo.read_bytes())
        if number != 3:
            np.save(tmp_path / f"photos/a/{number}.npy", np.zeros(2))
    (tmp_path / "photos/a/4.npy").write_bytes(b"")
    with pytest.warns(UserWarning, match="1 of 8 images without npy"):
        shardpack.pack(tmp_path / "photos", tmp_path / "packed", with_="npy")
    with pytest.raises(shardpack.DataError, match='component "npy"'):
        list(shardpack.Loader(tmp_path / "packed", 8, components=["npy"], output="numpy"))
    made = shardpack.Loader(tmp_path / "packed", 8, components=["npy"], output="numpy", on_bad="skip")
    (batch,) = made
    assert batch["npy"].shape == (6, 2) and made.receipt().samples == 6
    reasons = sorted(one["reason"].rpartition(": ")[2] for one in made.receipt().skipped)
    assert reasons == ["no array of numpy in its 0 bytes", "the sample has no such array"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch_size": "64"}, "batch_size='64': a whole number"),
        ({"batch_size": 64.0}, "batch_size=64.0: a whole number"),
        ({"batch_size": None}, "batch_size=None: a whole number"),
        ({"batch_size": True}, "batch_size=True: a whole number"),
        ({"seed": -1}, r"seed=-1: 0 to 2\^64 - 1"),
        ({"seed": None}, "seed=None"),
        ({"seed": float("nan")}, "seed=nan"),
        ({"lanes": 0}, "lanes=0: 1 to"),
        ({"threads": 10**6}, "threads=1000000: 0 to 4096"),
        ({"max_pixels": -1}, "max_pixels=-1"),
        ({"memory": 1.5}, "memory=1.5: a number of bytes"),
        ({"shuffle": 3}, "shuffle=3"),
        ({"check_content": "no"}, "check_content='no': True or False"),
        ({"part": (0, float("nan"))}, "part=nan: a number"),
        ({"part": 0.5}, "part=0.5: 2 numbers"),
        ({"balance": "all"}, "balance='all': a number"),
        ({"range": 5}, "range=5: the first number"),
        ({"range": (0, 1, 2)}, r"range=\(0, 1, 2\): the first number"),
        ({"classes": "class00"}, "classes='class00': a list"),
        ({"samples": [0.5]}, "samples=0.5: a whole number"),
        ({"components": "npy"}, "components='npy': a list"),
        ({"rank": 0.0, "world_size": 1}, "rank=0.0: a whole number"),
        ({"batch_transform": 3}, "batch_transform=3: a function"),
        ({"transform": lambda image: image}, "sample_transform=lambda"),
        ({"transform": [transforms.RandomResizedCrop("32")]}, "RandomResizedCrop: size='32': a whole number"),
        ({"transform": transforms.RandomResizedCrop(2.5)}, "RandomResizedCrop: size=2.5"),
        ({"transform": [transforms.CenterCrop((8, 8, 8))]}, "CenterCrop: size="),
        ({"transform": [transforms.RandomResizedCrop(8, scale=(0, "1"))]}, "RandomResizedCrop: scale='1': a number"),
        (
            {"transform": [transforms.CenterCrop(8), transforms.RandomHorizontalFlip(2)]},
            "RandomHorizontalFlip: p=2: 0 to 1",
        ),
        (
            {"transform": [transforms.CenterCrop(8), transforms.Normalize([0, 0], [1, 1])]},
            "Normalize: mean=.*3 numbers",
        ),
        ({"drop_last": True}, 'last="drop"'),
        ({"num_workers": 4}, "threads=number"),
        ({"sampler": None}, "shuffle, part, range"),
        ({"prefetch_factor": 2}, "ahead=bytes"),
        ({"shufle": True}, "perhaps shuffle"),
    ],
)
def test_options_are_checked_by_name(few: Path, options: dict, says: str) -> None:
    with pytest.raises(shardpack.UsageError, match=says):
        shardpack.Loader(few, **options)


def test_what_is_no_packed_dataset_is_told_with_what_makes_one_of_it(tree: Path, few: Path, tmp_path: Path) -> None:
    (shard,) = few.glob("*.tar")
    (tmp_path / "a.tar").write_bytes(b"")
    for opening in shardpack.Loader, shardpack.Dataset:
        for path, says in [
            (tree, "shardpack.pack"),
            (tmp_path, "shardpack.convert"),
            (tmp_path / "a.tar", "shardpack.convert"),
            (shard, "open its folder"),
        ]:
            with pytest.raises(shardpack.UsageError, match=says):
                opening(path)
    for wrong in (["a", "b"], 3, None, b"packed"):
        with pytest.raises(shardpack.UsageError):
            shardpack.Loader(wrong)
    with pytest.raises(shardpack.UsageError, match=r"shardpack.Part\("):
        shardpack.Loader([str(few), str(few)])
