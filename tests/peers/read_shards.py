"""Reads shards with foreign readers and compares every sample with the packed ImageFolder.

    read_shards.py webdataset|tarfile|datasets|dali|tree|wids SOURCE SHARD...

`datasets` is Hugging Face datasets. `dali` finds samples by the index beside each shard and returns no keys, so this script
numbers the samples. `tree` takes folders of extracted shards, `wids` takes wids.json. The expected samples come from the
source folder alone; this script numbers its classes like torchvision's ImageFolder. Prints the number of samples. At the
first error, prints one line and exits with 1.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Generic, Iterator, TypeVar

IMAGES = {".jpg", ".jpeg", ".png"}
UNZSTD = [sys.executable, str(Path(__file__).with_name("unzstd.py"))]

Sample = dict[str, bytes]


def with_webdataset(shards: list[str]) -> Iterator[tuple[str, Sample]]:
    """Key and components of each sample, as webdataset gives them."""
    import webdataset

    pipes = [f"pipe:{' '.join(UNZSTD)} {shard}" if shard.endswith(".zst") else shard for shard in shards]
    for sample in webdataset.WebDataset(pipes, shardshuffle=False):
        yield sample["__key__"], {name: data for name, data in sample.items() if not name.startswith("__")}


def grouped(members: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, Sample]]:
    """Groups neighbours with the same name up to the first dot."""
    key, sample = None, {}
    for name, data in members:
        stem, extension = name.split(".", 1)
        if stem != key and sample:
            yield key, sample
            sample = {}
        key = stem
        sample[extension] = data
    if sample:
        yield key, sample


def with_tarfile(shards: list[str]) -> Iterator[tuple[str, Sample]]:
    """Key and components of each sample, as Python's tarfile gives them."""
    for shard in shards:
        content = Path(shard).read_bytes()
        if shard.endswith(".zst"):
            content = subprocess.run([*UNZSTD, shard], stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            yield from grouped((member.name, tar.extractfile(member).read()) for member in tar)


def with_tree(folders: list[str]) -> Iterator[tuple[str, Sample]]:
    """Key and components of each sample, from files that have been extracted."""
    for folder in folders:
        files = sorted(Path(folder).iterdir())
        yield from grouped((file.name, file.read_bytes()) for file in files)


def with_wids(files: list[str]) -> Iterator[tuple[str, Sample]]:
    """Key and components of each sample, as wids gives them by its number, the last first.

    wids imports torch for names that this script does not use, so empty modules replace torch.
    """

    class Dataset(Generic[TypeVar("T")]):
        pass

    for name in ("torch", "torch.distributed", "torch.utils", "torch.utils.data"):
        sys.modules[name] = ModuleType(name)
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, sys.modules[name])
    sys.modules["torch.utils.data"].Dataset, sys.modules["torch.utils.data"].Sampler = Dataset, object
    import wids

    found = []
    with tempfile.TemporaryDirectory() as cache:
        for file in files:
            dataset = wids.ShardListDataset(file, cache_dir=cache, transformations=[])
            for number in reversed(range(len(dataset))):
                sample = {name: data.read() for name, data in dataset[number].items() if name.startswith(".")}
                found.append((dataset[number]["__key__"], {name[1:]: data for name, data in sample.items()}))
    yield from reversed(found)


def with_datasets(shards: list[str]) -> Iterator[tuple[str, Sample]]:
    """Components of each sample, as Hugging Face datasets gives them, as a stream and from its cache, which must agree."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    import datasets

    def load(cache: str, streaming: bool) -> list[dict]:
        rows = datasets.load_dataset(
            "webdataset", data_files=shards, split="train", streaming=streaming, cache_dir=cache
        )
        images = [name for name, feature in rows.features.items() if isinstance(feature, datasets.Image)]
        assert len(images) == 1, f"columns of images: {images}"
        rows = rows.cast_column(images[0], datasets.Image(decode=False))
        return [{"image": row[images[0]]["bytes"], **{k: v for k, v in row.items() if k != images[0]}} for row in rows]

    with tempfile.TemporaryDirectory() as cache:
        streamed, cached = load(cache, True), load(cache, False)
    assert streamed == cached, "the stream has other samples than the cache"
    for row in streamed:
        yield row["__key__"], {"image": row["image"], "cls": str(row["cls"]).encode()}


def with_dali(shards: list[str]) -> Iterator[tuple[str, Sample]]:
    """Components of each sample, as NVIDIA DALI gives them on the CPU by the index of each shard."""
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def read():
        index_paths = [str(Path(shard).with_suffix(".idx")) for shard in shards]
        image, label = fn.readers.webdataset(paths=shards, index_paths=index_paths, ext=["jpg", "cls"], name="reader")
        return image, label

    pipeline = read()
    pipeline.build()
    for number in range(pipeline.reader_meta("reader")["epoch_size"]):
        image, label = pipeline.run()
        yield f"{number:08}", {"jpg": image.at(0).tobytes(), "cls": label.at(0).tobytes()}


def main() -> None:
    how, source, shards = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    read = globals()[f"with_{how}"]
    classes = sorted(entry.name for entry in source.iterdir() if entry.is_dir())
    files = [path for path in source.rglob("*") if path.suffix.lower() in IMAGES]
    expected = Counter(
        (classes.index(path.relative_to(source).parts[0]), path.read_bytes()) for path in files
    )
    keys, found = [], Counter()
    for key, sample in read(shards):
        components = set(sample)
        image = components - {"cls", "json"}
        if len(image) != 1 or "cls" not in components:
            sys.exit(f"{key}: components {sorted(components)}, expected an image and cls")
        payload, label = sample[image.pop()], int(sample["cls"])
        if "json" in sample:
            meta = json.loads(sample["json"])
            if (source / meta["path"]).read_bytes() != payload:
                sys.exit(f"{key}: the image is not that of {meta['path']}")
            if (meta["label"], meta["class"]) != (label, classes[label]):
                sys.exit(f"{key}: json says {meta}, cls says {label}")
        keys.append(key)
        found[label, payload] += 1
    if found != expected:
        sys.exit(f"{(expected - found).total()} images are missing, {(found - expected).total()} are not in the source")
    if keys != [f"{number:08}" for number in range(len(files))]:
        sys.exit(f"keys are not numbers without gaps: {keys[:5]} …")
    print(len(keys))


if __name__ == "__main__":
    main()
