"""The loader: contents of batches, order of samples, and resuming."""

from __future__ import annotations

import contextlib
import gc
import json
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import shardpack
from conftest import loader, numbers_of
from shardpack import transforms


def test_batches_have_the_shapes_and_types_that_were_asked_for(packed: Path) -> None:
    images, labels = next(iter(loader(packed)))
    assert (images.shape, images.dtype, labels.dtype) == ((16, 3, 32, 32), np.uint8, np.int64)
    assert images.flags.c_contiguous and images.flags.writeable and labels.shape == (16,)
    images, _ = next(iter(loader(packed, transform=transforms.imagenet_eval(32, layout="HWC"))))
    assert images.shape == (16, 32, 32, 3)
    for dtype in ("float32", "float16"):
        images, _ = next(iter(loader(packed, transform=transforms.imagenet_train(32, dtype=dtype))))
        assert images.dtype == dtype and np.isfinite(images).all() and images.min() < 0


def test_floats_are_the_normalised_levels(packed: Path) -> None:
    levels, _ = next(iter(loader(packed, transform=transforms.imagenet_eval(48))))
    floats, _ = next(iter(loader(packed, transform=transforms.imagenet_eval(48, dtype="float32"))))
    mean, std = (np.float32(one)[:, None, None] for one in (transforms.IMAGENET_MEAN, transforms.IMAGENET_STD))
    np.testing.assert_allclose(floats, (levels / np.float32(255) - mean) / std, atol=1e-5)


def test_every_sample_comes_once_an_epoch_in_another_order(packed: Path) -> None:
    made = loader(packed)
    first, second = numbers_of(made), numbers_of(made)
    assert sorted(first) == sorted(second) == list(range(300)) and first != second
    assert len(made) == 19 and made.epoch == 2 and numbers_of(loader(packed)) == first
    assert made.receipt().proves(made.expected(1)) and made.receipt().epoch == 1
    assert not made.receipt().proves(made.expected(0))


def test_labels_are_those_of_the_classes(packed: Path) -> None:
    dataset = shardpack.Dataset(packed)
    for batch in loader(packed):
        assert [dataset[int(number)].label for number in batch.samples] == batch[1].tolist()


def test_ranks_share_an_epoch_and_their_receipts_add_up(packed: Path) -> None:
    loaders = [loader(packed, rank=rank, world_size=3) for rank in range(3)]
    seen = [numbers_of(one) for one in loaders]
    assert sorted(sum(seen, [])) == list(range(300)) and {len(one) for one in loaders} == {7}
    receipts = [one.receipt() for one in loaders]
    assert shardpack.Receipt.join(receipts).proves(loaders[0].expected(0))
    assert (receipts[0] + receipts[1] + receipts[2]).samples == 300
    assert not (receipts[0] + receipts[1]).proves(loaders[0].expected(0))
    with pytest.raises(shardpack.UsageError, match="two datasets or epochs"):
        other = loader(packed)
        list(other), list(other)
        receipts[0] + other.receipt()


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_state_goes_on_in_any_number_of_ranks(packed: Path, world_size: int) -> None:
    whole = loader(packed, seed=5)
    list(whole)
    seen, images = [], {}
    for at, batch in enumerate(whole):
        seen += batch.samples.tolist()
        images.update(zip(batch.samples.tolist(), batch[0]))
        if at == 6:
            state = json.loads(json.dumps(whole.state_dict()))
    rest = []
    for rank in range(world_size):
        gone_on = loader(packed, rank=rank, world_size=world_size)
        gone_on.load_state_dict(state)
        left = gone_on.batches_left
        batches = list(gone_on)
        assert left == len(batches) and len(gone_on) > left and gone_on.epoch == 2
        for batch in batches:
            rest += batch.samples.tolist()
            for number, image in zip(batch.samples.tolist(), batch[0]):
                assert np.array_equal(image, images[number])
    assert sorted(seen[: 7 * 16] + rest) == list(range(300))


def test_a_state_at_the_end_of_an_epoch_goes_on_with_the_next(packed: Path) -> None:
    made = loader(packed)
    for _ in made:
        last = made.state_dict()
    after = made.state_dict()
    second = numbers_of(made)
    for state in (last, after):
        gone_on = loader(packed)
        gone_on.load_state_dict(state)
        assert gone_on.epoch == 1 and len(gone_on) == 19 and numbers_of(gone_on) == second


def test_set_epoch_chooses_the_order_and_keeps_what_was_gone_on_with(packed: Path) -> None:
    made = loader(packed)
    epochs = [numbers_of(made) for _ in range(3)]
    made.set_epoch(1)
    assert made.epoch == 1 and numbers_of(made) == epochs[1]
    batches = iter(made)
    next(batches)
    state = made.state_dict()
    gone_on = loader(packed)
    gone_on.load_state_dict(state)
    gone_on.set_epoch(2)
    assert numbers_of(gone_on) == epochs[2][16:]


def test_a_loop_that_is_left_begins_the_next_epoch_the_next_time(packed: Path) -> None:
    made = loader(packed)
    for _ in made:
        break
    assert made.epoch == 1
    assert sorted(numbers_of(made)) == list(range(300)) and made.receipt().epoch == 1


def test_an_old_iterator_says_that_the_loader_has_gone_on(packed: Path) -> None:
    made = loader(packed)
    old = iter(made)
    next(old)
    list(made)
    with pytest.raises(shardpack.UsageError, match="gone on"):
        next(old)


def test_batches_that_are_kept_are_never_overwritten(packed: Path) -> None:
    made = loader(packed)
    kept = list(made)
    copies = [batch[0].copy() for batch in kept]
    views = [batch[0][3] for batch in kept]
    expected = [copy[3] for copy in copies]
    del kept
    gc.collect()
    list(made)
    assert all(np.array_equal(view, one) for view, one in zip(views, expected))


def test_threads_do_not_change_what_is_in_a_batch(packed: Path) -> None:
    one, many = (loader(packed, threads=threads) for threads in (1, 7))
    assert all(np.array_equal(first[0], second[0]) for first, second in zip(one, many))


def test_payloads_come_as_they_were_packed(packed: Path) -> None:
    dataset = shardpack.Dataset(packed)
    encoded, labels = next(iter(loader(packed, transform=None)))
    batch = next(iter(loader(packed, transform=None)))
    assert isinstance(encoded, shardpack.Encoded) and len(encoded) == len(labels) == 16
    assert [bytes(one) for one in encoded] == [dataset[int(number)].bytes for number in batch.samples]
    assert bytes(encoded[-1]) == bytes(encoded[15]) and len(encoded[2:4]) == 2
    with pytest.raises(IndexError):
        encoded[16]
    assert encoded[0].readonly and encoded.bytes.flags.writeable
    starts = encoded.offsets.tolist()
    joined = [encoded.bytes[start:end].tobytes() for start, end in zip(starts, starts[1:])]
    carried = pickle.loads(pickle.dumps(encoded))
    assert joined == [bytes(one) for one in encoded] == [bytes(one) for one in carried] and len(carried) == 16


@pytest.mark.parametrize("memory", ["256MiB", "8MiB"])
def test_payloads_that_are_kept_stay_and_more_come(packed: Path, memory: str) -> None:
    dataset, kept = shardpack.Dataset(packed), []
    with contextlib.closing(loader(packed, transform=None, memory=memory)) as several:
        for _ in range(2):
            # One payload of each batch keeps the data in memory that was read with it.
            kept += [(int(batch.samples[3]), batch[0][3]) for batch in several]
    assert len(kept) == 38 and all(bytes(one) == dataset[number].bytes for number, one in kept)


def test_large_batches_of_small_samples_get_the_memory_that_their_lanes_need(packed: Path) -> None:
    with pytest.raises(shardpack.UsageError, match="too few for 24 lanes"):
        shardpack.Loader(packed, 12, memory="1MiB")
    assert len(shardpack.Loader(packed, 300)) == 1


def test_arrays_are_stacked(arrays: Path) -> None:
    seen = []
    for batch in shardpack.Loader(arrays, 64, output="numpy"):
        assert batch["npy"].shape == (len(batch.samples), 64) and batch["npy"].dtype == np.float32
        assert ((batch["npy"][:, 0] / 64) % 7 == batch["label"]).all()
        seen += batch["npy"][:, 0].tolist()
    assert sorted(seen) == [64.0 * number for number in range(1000)]


def test_values_come_as_components_and_the_label_once(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = {"x": [[float(at), at + 0.5] for at in range(40)], "label": [at % 3 for at in range(40)]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "table.parquet")
    assert shardpack.convert(tmp_path / "table.parquet", tmp_path / "packed").ok
    (batch,) = shardpack.Loader(tmp_path / "packed", 64, output="numpy")
    assert sorted(batch) == ["label", "x.npy"] and batch["x.npy"].shape == (40, 2)
    assert (batch["x.npy"][:, 0] % 3 == batch["label"]).all()


def test_several_sources_are_converted_into_one(tree: Path, packed: Path, tmp_path: Path) -> None:
    shardpack.pack(tree, tmp_path / "again")
    report = shardpack.convert([packed, tmp_path / "again"], tmp_path / "twice")
    assert report.datasets[0]["samples"] == 600


def test_a_function_of_the_callers_is_called_for_each_sample(packed: Path) -> None:
    def small(item: shardpack.Item):
        return item.image()[:8, :8], item.number

    made = loader(packed, transform=None, sample_transform=small)
    for batch in made:
        (images, numbers), labels = batch
        assert images.shape[1:] == (8, 8, 3) and numbers == batch.samples.tolist() and len(labels) == len(images)
    assert made.receipt().proves(made.expected(0))


def test_the_state_of_a_mapped_loader_is_that_of_the_batch_that_was_handed_out(packed: Path) -> None:
    made = loader(packed, transform=None, sample_transform=lambda item: item.number)
    batches = iter(made)
    seen = numbers_of(next(batches) for _ in range(4))
    assert made.receipt().samples == 64
    gone_on = loader(packed)
    gone_on.load_state_dict(made.state_dict())
    assert sorted(seen + numbers_of(gone_on)) == list(range(300))


def test_a_batch_transform_has_the_last_word(packed: Path) -> None:
    assert next(iter(loader(packed, batch_transform=lambda batch: batch[1].sum()))).ndim == 0


def test_subsets_mixes_and_policies(packed: Path) -> None:
    dataset = shardpack.Dataset(packed)
    assert sorted(numbers_of(loader(packed, range=range(10, 30)))) == list(range(10, 30))
    cats = numbers_of(loader(packed, classes=["class03", 4]))
    assert len(cats) == 60 and {dataset[number].label for number in cats} == {3, 4}
    parts = [numbers_of(loader(packed, part=part)) for part in [(0.0, 0.9), (0.9, 1.0)]]
    assert sorted(sum(parts, [])) == list(range(300)) and len(parts[1]) == 30
    mixed = loader([shardpack.Part(packed, weight=3, classes=[0]), shardpack.Part(packed, weight=1)], epoch_samples=400)
    sources = [int(source) for batch in mixed for source in batch.sources]
    assert (sources.count(0), sources.count(1)) == (300, 100)
    for wrong in [
        {"classes": ["no"]},
        {"samples": [1], "range": (5, 9)},
        {"range": range(0, 10, 2)},
        {"range": range(-5, 5)},
        {"part": (0.5, 0.4)},
    ]:
        with pytest.raises(shardpack.UsageError):
            loader(packed, **wrong)


@pytest.mark.parametrize("dtype", [">f4", "<f8", "<i2", "<u2", "|b1", "<c8"])
def test_arrays_of_every_dtype_come_as_they_are(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "tree" / "a").mkdir(parents=True)
    expected = {}
    for number in range(20):
        array = np.arange(number, number + 6).reshape(2, 3).astype(dtype)
        np.save(tmp_path / "tree" / "a" / f"{number:02}.npy", array)
        expected[f"a/{number:02}.npy"] = array
    shardpack.pack(tmp_path / "tree", tmp_path / "packed", files="npy")
    paths = shardpack.Dataset(tmp_path / "packed").paths
    for output in ["numpy"] + ["torch"] * ("torch" in sys.modules):
        for batch in shardpack.Loader(tmp_path / "packed", 8, output=output):
            for number, found in zip(batch.samples, batch["npy"]):
                assert np.array_equal(np.asarray(found), expected[paths[int(number)]])


def test_stats_say_who_is_slow(packed: Path) -> None:
    made = loader(packed, range=range(64))
    start = time.monotonic()
    for number, _ in enumerate(made):
        if number == 0:
            waited = time.monotonic() - start
            # All batches are made while the consumer works, so it has waited for the first one alone.
            while made.stats()["samples"] < 64:
                time.sleep(0.05)
            time.sleep(max(0.5, 40 * waited))
    stats = made.stats()
    assert stats["samples"] >= 64 and stats["bottleneck"] == "consumer" and stats["decoded_by_table"] > 0
    with pytest.raises(shardpack.UsageError):
        loader(packed).stats()


def test_the_receipt_stays_when_the_loader_is_closed(packed: Path) -> None:
    for options in {}, {"transform": None, "sample_transform": lambda item: item.number}:
        made = loader(packed, **options)
        next(iter(made))
        made.close()
        assert made.receipt().samples == 16
        list(made)
        made.close()
        assert made.receipt().proves(made.expected(1))


def test_ranks_are_found_late_and_shown(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loader(packed)
    assert "not known yet" in repr(made)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(made) == 10 and made.ranks == (1, 2, "RANK and WORLD_SIZE") and "rank 1 of 2" in repr(made)
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(shardpack.UsageError, match="rank 2 of 2"):
        len(loader(packed))
    monkeypatch.delenv("RANK")
    # A Slurm batch script is one process, however many tasks the job has.
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert loader(packed).ranks.world_size == 1
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert loader(packed).ranks == (0, 4, "Slurm")


@pytest.mark.parametrize("begins", ["anew", "at an epoch", "in its midst"])
def test_a_state_between_the_beginning_of_an_epoch_and_its_first_batch_is_that_beginning(
    few: Path, begins: str
) -> None:
    states: list[dict] = []

    def told(batch: shardpack.Batch) -> shardpack.Batch:
        states.append(json.loads(json.dumps(made.state_dict())))
        return batch

    made = loader(few, 4, transform=None, batch_transform=told)
    if begins == "at an epoch":
        made.set_epoch(5)
    if begins == "in its midst":
        first = loader(few, 4, transform=None)
        next(iter(first))
        made.load_state_dict(first.state_dict())
    seen = numbers_of(made)
    gone_on = loader(few, 4, transform=None)
    gone_on.load_state_dict(states[0])
    assert numbers_of(gone_on) == seen and len(seen) == (13 if begins == "in its midst" else 17)


@pytest.mark.parametrize(
    ("world_size", "batch_size", "expected"),
    [
        (2, 4, [[4, 4, 1], [4, 3, 1]]),
        (4, 4, [[4, 1], [3, 1], [3, 1], [3, 1]]),
        (2, 1, [[1] * 9] * 2),
        (20, 4, [[1]] * 20),
    ],
)
def test_no_batch_is_empty(few: Path, world_size: int, batch_size: int, expected: list[list[int]]) -> None:
    loaders = [loader(few, batch_size, transform=None, rank=rank, world_size=world_size) for rank in range(world_size)]
    batches = [[batch.samples.tolist() for batch in one] for one in loaders]
    assert [[len(batch) for batch in rank] for rank in batches] == expected
    assert {number for rank in batches for batch in rank for number in batch} == set(range(17))
    receipt = shardpack.Receipt.join(one.receipt() for one in loaders)
    assert receipt.proves(loaders[0].expected(0)) and receipt.samples == 17
    # The first samples are repeated only if a rank would have an empty batch.
    assert receipt.repeated == sum(map(sum, expected)) - 17


@pytest.mark.parametrize("stop", [1, 2])
def test_a_run_goes_on_behind_a_batch_that_lent_a_sample(few: Path, stop: int) -> None:
    seen = []
    for rank in range(2):
        made = loader(few, 4, transform=None, rank=rank, world_size=2)
        batches = iter(made)
        seen += numbers_of(next(batches) for _ in range(stop))
    for world_size in (1, 2):
        rest = []
        for rank in range(world_size):
            gone_on = loader(few, 4, transform=None, rank=rank, world_size=world_size)
            gone_on.load_state_dict(made.state_dict())
            rest += numbers_of(gone_on)
        assert sorted(seen + rest) == list(range(17))


def test_arrays_of_other_shapes_are_a_list_of_arrays(ragged: Path) -> None:
    for batch in shardpack.Loader(ragged, 4, components=["npy"], output="numpy"):
        column = batch["npy"]
        assert all(isinstance(one, np.ndarray) and one.dtype == np.float32 for one in column)
        assert isinstance(column, np.ndarray) or {one.shape for one in column} <= {(2, 3), (4,)}
        assert len(pickle.dumps(dict(batch))) > 0
    paths = shardpack.Dataset(ragged).paths
    alone = shardpack.Loader(ragged, 4, components=["npy"], output="numpy", samples=[paths.index("class00/000007.jpg")])
    (batch,) = alone
    assert np.array_equal(np.asarray(batch["npy"]), np.full((1, 2, 3), 7))


def test_numbers_of_numpy_are_numbers(few: Path) -> None:
    options = {"seed": np.int64(3), "rank": np.int32(0), "world_size": np.uint8(1), "memory": np.int64(1 << 30)}
    made = shardpack.Loader(
        few, np.int64(4), transform=transforms.imagenet_eval(np.int64(8), dtype=np.float32), **options
    )
    made.set_epoch(np.int64(2))
    assert len(made) == 5 and made.expected(np.int64(2)).epoch == 2 and len(numbers_of(made)) == 17
    for some in (range(8), (0, 8), [np.int64(0), np.int64(8)]):
        assert sorted(numbers_of(shardpack.Loader(few, 4, range=some, output="numpy"))) == list(range(8))
    assert len(shardpack.Loader(few, 4, part=(np.float32(0), np.float64(0.5)))) == 2


@pytest.mark.parametrize("transform", [None, "eval"])
def test_a_batch_may_be_larger_than_an_epoch(few: Path, transform: str | None) -> None:
    assert [len(batch.samples) for batch in shardpack.Loader(few, 2**40, transform=transform, output="numpy")] == [17]


def test_generators_of_samples_follow_the_seed_of_the_loader(few: Path) -> None:
    def drawn(seed: int, state: dict | None = None) -> set[int]:
        made = loader(few, 4, transform=None, seed=seed, sample_transform=lambda item: int(item.rng().integers(2**40)))
        if state is not None:
            made.load_state_dict(state)
        return {number for batch in made for number in batch[0]}

    assert len(drawn(1)) == 17 and not drawn(1) & drawn(2) and drawn(1) == drawn(1)
    # A resumed run takes the seed from its state.
    assert drawn(2, loader(few, 4, transform=None, seed=1).state_dict()) == drawn(1)


def test_a_mix_has_the_classes_of_all_its_parts(tree: Path, few: Path, tmp_path: Path) -> None:
    for name, classes in (("one", ["ant", "cat"]), ("two", ["bee", "cat"]), ("numbers", ["0", "1", "2"])):
        for number, label in enumerate(classes):
            (tmp_path / f"{name}.tree" / label).mkdir(parents=True)
            photos = sorted(tree.glob(f"class0{number}/*.jpg"))[:3]
            for photo in photos:
                (tmp_path / f"{name}.tree" / label / photo.name).write_bytes(photo.read_bytes())
        shardpack.pack(tmp_path / f"{name}.tree", tmp_path / name)
    parts = [shardpack.Part(tmp_path / "one"), shardpack.Part(tmp_path / "two", classes=["cat", "bee"])]
    datasets = [shardpack.Dataset(part.path) for part in parts]
    for given in (parts, parts[::-1]):
        made = shardpack.Loader(given, 4, output="numpy")
        assert made.classes == ["ant", "bee", "cat"]
        for batch in made:
            for source, number, label in zip(batch.sources, batch.samples, batch[1]):
                dataset = datasets[int(source)] if given is parts else datasets[1 - int(source)]
                assert made.classes[label] == dataset[int(number)].class_name
    assert shardpack.Loader(parts[0], 4).classes == ["ant", "cat"]
    with pytest.raises(shardpack.UsageError, match="numbers its classes") as raised:
        shardpack.Loader([*parts, shardpack.Part(tmp_path / "numbers")], 4)
    # The advice of the error works.
    assert "shardpack convert --class-map FILE" in raised.value.help
    (tmp_path / "map").write_text("0,ant\n1,cat\n2,dog\n")
    shardpack.convert(tmp_path / "numbers", tmp_path / "named", class_map=tmp_path / "map")
    assert shardpack.Loader([*parts, shardpack.Part(tmp_path / "named")], 4).classes == ["ant", "bee", "cat", "dog"]
