"""Random access to samples and columns, and other uses of a dataset as a sequence."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardpack
from shardpack import _native


@pytest.fixture(scope="module")
def dataset(packed: Path) -> shardpack.Dataset:
    return shardpack.Dataset(packed)


def test_a_sample_is_shown_in_one_line(few: Path) -> None:
    shown = repr(shardpack.Dataset(few)[0])
    assert len(shown) < 200 and "kind='jpeg'" in shown and " bytes)" in shown


def test_every_sample_is_the_file_that_was_packed(dataset: shardpack.Dataset, tree: Path) -> None:
    assert len(dataset) == 300 and len(dataset.classes) == 10
    for number, sample in enumerate(dataset):
        assert sample.bytes == (tree / sample.path).read_bytes() and sample.number == number
        assert sample.class_name == sample.path.split("/")[0] == dataset.classes[sample.label]
        assert sample.kind == "jpeg" and dataset.find(sample.key) == number
    with pytest.raises(KeyError):
        dataset.find("none of them")


def test_columns_are_what_the_samples_say(dataset: shardpack.Dataset) -> None:
    samples = list(dataset)
    assert dataset.keys == [sample.key for sample in samples] and dataset.paths == [sample.path for sample in samples]
    assert dataset.labels.tolist() == dataset.targets == [sample.label for sample in samples]
    assert dataset.sizes.tolist() == [len(sample.bytes) for sample in samples]
    assert [tuple(size) for size in dataset.image_sizes] == [sample.size for sample in samples]
    assert dataset.hashes.shape == (300, 16) and len({bytes(one) for one in dataset.hashes}) == 300
    assert dataset.class_to_idx["class07"] == 7 and dataset.manifest["samples"] == 300
    pyarrow = pytest.importorskip("pyarrow")
    table = dataset.to_arrow()
    assert isinstance(table, pyarrow.Table) and table["label"].to_pylist() == dataset.targets
    assert table["bytes"].to_pylist() == dataset.sizes.tolist()


@settings(max_examples=200, deadline=None)
@given(start=st.integers(-400, 400), stop=st.integers(-400, 400), step=st.integers(-7, 7).filter(bool), data=st.data())
def test_it_is_indexed_as_a_list_is(keys: list[str], packed: Path, start: int, stop: int, step: int, data) -> None:
    dataset = opened(packed)
    assert [sample.key for sample in dataset[start:stop:step]] == keys[start:stop:step]
    many = data.draw(st.lists(st.integers(-300, 299), max_size=9))
    assert [sample.key for sample in dataset.get_many(many)] == [keys[number] for number in many]
    assert [sample.key for sample in dataset.__getitems__(many)] == [keys[number] for number in many]
    try:
        expected = keys[start]
    except IndexError:
        with pytest.raises(IndexError):
            dataset[start]
    else:
        assert dataset[start].key == expected


@pytest.fixture(scope="module")
def keys(packed: Path) -> list[str]:
    return [sample.key for sample in shardpack.Dataset(packed)]


_OPENED: dict[Path, shardpack.Dataset] = {}


def opened(packed: Path) -> shardpack.Dataset:
    return _OPENED.setdefault(packed, shardpack.Dataset(packed))


def test_pixels_are_those_of_pillow(dataset: shardpack.Dataset) -> None:
    pytest.importorskip("PIL")
    for sample in dataset[:20]:
        ours, theirs = sample.image().astype(int), np.asarray(sample.pil()).astype(int)
        assert ours.shape == theirs.shape and np.abs(ours - theirs).max() <= 1
    with pytest.raises(shardpack.DataError):
        shardpack.decode(b"no image")


def test_with_a_transform_it_is_as_torchvisions_imagefolder(packed: Path) -> None:
    pytest.importorskip("PIL")
    dataset = shardpack.Dataset(packed, transform=lambda image: image.size, target_transform=lambda label: -label)
    plain = shardpack.Dataset(packed)
    assert dataset[5] == (plain[5].pil().size, -plain[5].label) and dataset[-2:] == [dataset[298], dataset[299]]
    assert dataset.sample(5).bytes == plain[5].bytes


def size_of(arguments: tuple[shardpack.Dataset, int]) -> tuple[int, int]:
    dataset, number = arguments
    return os.getpid(), len(dataset[number].bytes)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_and_threads_read_the_same(dataset: shardpack.Dataset, method: str) -> None:
    sizes = dataset.sizes.tolist()
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(size_of, [(dataset, number) for number in range(0, 300, 7)])
    assert [size for _, size in found] == sizes[::7] and os.getpid() not in {process for process, _ in found}
    again = pickle.loads(pickle.dumps(dataset))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: len(again[number].bytes), range(300))) == sizes


def test_arrays_are_components(arrays: Path) -> None:
    dataset = shardpack.Dataset(arrays)
    for sample in dataset[:10]:
        (value,) = sample.components.values()
        assert value.dtype == np.float32 and value.shape == (64,) and int(value[0] / 64) % 7 == int(sample.class_name)


def test_damage_is_an_error_with_a_place(tree: Path, tmp_path: Path) -> None:
    shardpack.pack(tree, tmp_path / "packed")
    (shard,) = (tmp_path / "packed").glob("*.tar")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    dataset = shardpack.Dataset(tmp_path / "packed", check_content=True)
    bad = []
    for number in range(len(dataset)):
        try:
            dataset[number]
        except shardpack.DataError as error:
            bad.append(error)
    assert len(bad) <= 1
    if bad:
        assert bad[0].file.endswith(".tar") and bad[0].sample and "hash" in bad[0].message
    with pytest.raises(shardpack.UsageError) as raised:
        shardpack.Dataset(tmp_path)
    assert raised.value.file == str(tmp_path) and raised.value.help


def test_a_notebook_shows_pictures(dataset: shardpack.Dataset, packed: Path) -> None:
    html = dataset._repr_html_()
    assert html.count("<img ") == 12 and "class0" in html and "300 samples" in html
    batch = next(iter(shardpack.Loader(packed, 20, transform="train", output="numpy")))
    assert batch._repr_html_().count("data:image/png;base64,") == 16
    batch = next(iter(shardpack.Loader(packed, 20, output="numpy", as_dict=True)))
    assert batch._repr_html_().count("data:image/jpeg;base64,") == 16 and "<img " in dataset[0]._repr_html_()
    Image = pytest.importorskip("PIL.Image")
    import io

    from shardpack.batch import png

    pixels = dataset[0].image()
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))), pixels)


def test_ranges_are_what_samples_are_one_by_one(packed: Path, arrays: Path, tmp_path: Path) -> None:
    shardpack.convert(packed, tmp_path / "zstd", compress="zstd", shard_samples=70)
    generator = np.random.default_rng(0)
    for folder in (packed, arrays, tmp_path / "zstd"):
        native = _native.Dataset(str(folder))
        count = len(native)
        ranges = [(0, count), (0, 0), (count, count), *sorted(map(sorted, generator.integers(0, count + 1, (12, 2))))]
        for first, end in ranges:
            one_by_one = [native.sample(number) for number in range(first, end)]
            for budget in (1, 100_000, 1 << 40):
                found = native.samples(first, end, budget)
                assert len(found) == min(len(found), end - first) and (found or first == end)
                assert len(found) == end - first or budget < 1 << 40
                assert len(found) <= 1 or budget > 1
                for one, other in zip(found, one_by_one):
                    told = [
                        (s.number, s.key, s.label, s.class_name, s.path, s.bytes, s.size, s.kind) for s in (one, other)
                    ]
                    assert told[0] == told[1]
                    for (name, value), (name_too, value_too) in zip(one.components, other.components, strict=True):
                        assert name == name_too and bytes(np.asarray(value)) == bytes(np.asarray(value_too))
            assert np.asarray(native.labels(first, end)).tolist() == np.asarray(native.labels())[first:end].tolist()
            assert native.keys(first, end) == native.keys()[first:end]
            assert native.paths(first, end) == native.paths()[first:end]
        with pytest.raises(shardpack.Error, match="samples 0"):
            native.samples(0, count + 1, 1)
        assert native.keys(count, 0) == [] and native.keys(count - 1, count + 9) == native.keys()[-1:]


def test_a_file_that_is_cut_while_it_is_open_is_an_error(packed: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(packed, tmp_path / "copy"))
    dataset = shardpack.Dataset(copy)
    labels, loader = dataset.labels.tolist(), shardpack.Loader(copy, 8, transform=None)
    batches = iter(loader)
    next(batches)
    shards = sorted(path for path in copy.iterdir() if path.name.startswith("shard-"))
    for path in [*shards, *sorted((copy / "index").iterdir())]:
        os.truncate(path, 100)
    # Index data that was read before stays available.
    assert dataset.labels.tolist() == labels
    with pytest.raises(shardpack.DataError):
        _ = dataset[0]
    with pytest.raises(shardpack.DataError):
        _ = shardpack.Dataset(copy).labels
    with pytest.raises(shardpack.DataError):
        list(shardpack.Loader(copy, 8, transform=None))
    loader.close()
