"""Read shards with webdataset or tarfile, and hold every sample against the ImageFolder it was packed from.

    read_shards.py webdataset|tarfile|tree SOURCE SHARD...

`tree` takes folders into which shards have been extracted. Of the source nothing is used but the folder itself: its
classes are numbered here, as torchvision's ImageFolder numbers them. Prints the number of samples; exits with 1 and one
line at the first that is wrong.
"""

import io
import json
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Iterator

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
    """Neighbours with one name up to the first dot."""
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


def main() -> None:
    how, source, shards = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    read = {"webdataset": with_webdataset, "tarfile": with_tarfile, "tree": with_tree}[how]
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
