"""Reads a folder by the files that describe it for catalogues, and compares every row with the packed trees.

    read_catalogues.py card|croissant FOLDER SPLIT=TREE...
    read_catalogues.py rows FOLDER

`card` calls `datasets.load_dataset(FOLDER)`, as a stream and from its cache, which must agree. `croissant` reads croissant.json with
mlcroissant and its records. SPLIT is the name that the reader gives to the images of the ImageFolder TREE. Prints the number
of rows. At the first difference it exits with 1. `rows` prints features and values of all columns but images that
`datasets.load_dataset(FOLDER)` reads, as JSON.
"""

import hashlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

IMAGES = {".jpg", ".jpeg", ".png"}

Row = tuple[str, str]


def of_pixels(image: "PIL.Image.Image") -> str:
    """Hash of the decoded image: mlcroissant returns no bytes."""
    return hashlib.sha256(f"{image.mode} {image.size}".encode() + image.tobytes()).hexdigest()


def class_names(trees: dict[str, Path]) -> list[str]:
    """Names of the class folders of all trees, in the order of their labels; bytes that are not UTF-8 as `\\xff`."""
    names = {os.fsencode(entry.name) for tree in trees.values() for entry in tree.iterdir() if entry.is_dir()}
    return [name.decode(errors="backslashreplace") for name in sorted(names)]


def expected(tree: Path, hashed) -> Counter:
    """Class name and hash of each image of a tree."""
    rows: Counter = Counter()
    for folder in tree.iterdir():
        name = os.fsencode(folder.name).decode(errors="backslashreplace")
        rows.update((name, hashed(path)) for path in folder.rglob("*") if path.suffix.lower() in IMAGES)
    return rows


def with_card(folder: str, trees: dict[str, Path]) -> dict[str, Counter]:
    """Class name and hash of the bytes of each image, by split."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    import datasets

    def rows(split: "datasets.Dataset") -> Counter:
        assert split.features["cls"].names == class_names(trees), split.features["cls"].names
        names = split.features["cls"].names
        images = [name for name, feature in split.features.items() if isinstance(feature, datasets.Image)]
        for image in images:
            split = split.cast_column(image, datasets.Image(decode=False))
        found: Counter = Counter()
        for row in split:
            content = [row[image]["bytes"] for image in images if row[image] is not None]
            assert len(content) == 1, f"{row['__key__']}: {len(content)} images"
            if "json" in row:
                meta = row["json"] if isinstance(row["json"], dict) else json.loads(row["json"])
                assert meta["label"] == row["cls"], meta
            found[names[row["cls"]], hashlib.sha256(content[0]).hexdigest()] += 1
        return found

    with tempfile.TemporaryDirectory() as cache:
        read = [
            {name: rows(split) for name, split in datasets.load_dataset(folder, streaming=is_stream, cache_dir=cache).items()}
            for is_stream in (True, False)
        ]
    assert read[0] == read[1], "the stream has other rows than the cache"
    return read[0]


def with_croissant(folder: str, trees: dict[str, Path]) -> dict[str, Counter]:
    """Class name and hash of the pixels of each image, by split."""
    cache = tempfile.TemporaryDirectory()
    # mlcroissant finds extracted shards by their relative names, so the cache must be new.
    os.environ["CROISSANT_CACHE"] = cache.name
    import mlcroissant

    # A second read with one object fails in mlcroissant 1.1.1.
    def records(name: str) -> list[dict]:
        dataset = mlcroissant.Dataset(jsonld=str(Path(folder) / "croissant.json"))
        assert not dataset.metadata.ctx.issues.errors, dataset.metadata.ctx.issues.errors
        return [{key.rsplit("/", 1)[1]: value for key, value in row.items()} for row in dataset.records(name)]

    names = {row["label"]: row["name"] for row in records("classes/names")}
    assert [names[label] for label in range(len(names))] == class_names(trees), names
    found = {}
    for split in trees:
        rows = records(split)
        image = next(name for name in rows[0] if name not in ("__key__", "cls"))
        found[split] = Counter((names[row["cls"]], of_pixels(row[image])) for row in rows)
        alone = {row["key"] for row in records(f"{split}/{image}/records")}
        assert alone == {row["__key__"] for row in rows}, "other keys in the records of the images"
    cache.cleanup()
    return found


def rows_of_card(folder: str) -> None:
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    import datasets

    with tempfile.TemporaryDirectory() as cache:
        for name, split in datasets.load_dataset(folder, cache_dir=cache).items():
            images = [name for name, feature in split.features.items() if isinstance(feature, datasets.Image)]
            split = split.remove_columns([*images, "__url__"])
            features = {name: str(feature) for name, feature in split.features.items()}
            print(json.dumps([name, features, {row.pop("__key__"): row for row in split}]))


def main() -> None:
    if sys.argv[1] == "rows":
        return rows_of_card(sys.argv[2])
    how, folder, pairs = sys.argv[1], sys.argv[2], sys.argv[3:]
    trees = {name: Path(tree) for name, tree in (pair.split("=", 1) for pair in pairs)}
    if how == "card":
        read, hashed = with_card, lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        from PIL import Image

        read, hashed = with_croissant, lambda path: of_pixels(Image.open(io.BytesIO(path.read_bytes())))
    found = read(folder, trees)
    if set(found) != set(trees):
        sys.exit(f"splits {sorted(found)}, expected {sorted(trees)}")
    for name, tree in trees.items():
        wanted = expected(tree, hashed)
        if found[name] != wanted:
            lost, new = (wanted - found[name]).total(), (found[name] - wanted).total()
            sys.exit(f"{name}: {lost} images are missing, {new} are not in the source")
    print(sum(rows.total() for rows in found.values()))


if __name__ == "__main__":
    main()
