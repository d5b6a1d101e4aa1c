"""Writes Arrow files: write_arrow.py PARQUET DST copies tables, write_arrow.py DST saves datasets of Hugging Face.

- Each `NAME.parquet` in the folder PARQUET, and in its folders, becomes `NAME.arrow` in DST: streams and files, compressed or not. `NAME.json`
  of a table is copied.
- `saved`: `save_to_disk` of images with names of classes, after `shuffle` and `select`, in 3 shards;
- `splits`: the same as a `DatasetDict` of `train` and `held_out`;
- `values`: numbers, text, lists, an `Array2D`, in batches of 4 rows;
- `hidden`: labels that are all -1.

NAME.json beside a dataset has what `load_from_disk` returns, by split for `splits`.
"""

import json
import os
import shutil
import sys

import numpy as np

from read_values import told

ROWS = 30


def copy(source, out):
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [(pa.ipc.new_stream, None), (pa.ipc.new_file, "lz4"), (pa.ipc.new_stream, "zstd"), (pa.ipc.new_file, None)]
    number = 0
    for folder, _, names in sorted(os.walk(source)):
        to = os.path.join(out, os.path.relpath(folder, source))
        os.makedirs(to, exist_ok=True)
        for name in sorted(names):
            if name.endswith(".json"):
                shutil.copy(os.path.join(folder, name), os.path.join(to, name.replace(".parquet", ".arrow")))
            if not name.endswith(".parquet"):
                continue
            table = pq.read_table(os.path.join(folder, name), partitioning=None)
            new, compression = kinds[number % len(kinds)]
            number += 1
            path = os.path.join(to, name.replace(".parquet", ".arrow"))
            with new(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(table, max_chunksize=7)


def save(out):
    import datasets as hf
    import PIL.Image

    def png(row):
        path = os.path.join(out, f"image-{row}.png")
        PIL.Image.fromarray(np.full((8, 9, 3), row * 8, np.uint8)).save(path)
        with open(path, "rb") as file:
            content = file.read()
        os.remove(path)
        return {"bytes": content, "path": f"{row}.png"}

    features = hf.Features({"image": hf.Image(), "label": hf.ClassLabel(names=["wasp", "ant", "bee"]), "caption": hf.Value("string")})
    rows = {"image": [png(row) for row in range(ROWS)], "label": [row % 3 for row in range(ROWS)]}
    rows["caption"] = [f"picture {row}" for row in range(ROWS)]
    whole = hf.Dataset.from_dict(rows, features=features)

    def listed(folder):
        own = hf.load_from_disk(folder).cast_column("image", hf.Image(decode=False))
        names = own.features["label"].names
        coded = lambda row: list(row["image"]["bytes"])
        class_of = lambda label: names[label] if label >= 0 else None
        return [{"image": coded(row), "class": class_of(row["label"]), "caption": row["caption"]} for row in own]

    def note(name, content):
        with open(os.path.join(out, f"{name}.json"), "w") as file:
            json.dump(content, file)

    # The rows of the dataset are a selection until it is saved.
    some = whole.shuffle(seed=3).select(range(20))
    some.save_to_disk(os.path.join(out, "saved"), num_shards=3)
    note("saved", listed(os.path.join(out, "saved")))
    splits = {"train": some, "held_out": whole.select(range(3, 9))}
    hf.DatasetDict(splits).save_to_disk(os.path.join(out, "splits"), num_shards={"train": 2, "held_out": 1})
    note("splits", {name: listed(os.path.join(out, "splits", name)) for name in splits})
    hidden = whole.map(lambda row: {"label": -1}, features=features)
    hidden.save_to_disk(os.path.join(out, "hidden"))
    note("hidden", listed(os.path.join(out, "hidden")))

    random = np.random.default_rng(9)
    features = hf.Features({
        "number": hf.Value("int16"),
        "real": hf.Value("float64"),
        "text": hf.Value("string"),
        "vector": hf.List(hf.Value("float32")),
        "fixed": hf.List(hf.Value("int64"), length=3),
        "grid": hf.Array2D(shape=(2, 3), dtype="uint8"),
        "tags": hf.List(hf.Value("string")),
        "flag": hf.Value("bool"),
    })
    rows = {
        "number": list(range(-9, ROWS - 9)),
        "real": random.normal(size=ROWS).tolist(),
        "text": [None if row % 7 == 2 else f"row {row} \u00e9" for row in range(ROWS)],
        "vector": [random.normal(size=row % 4 + 1).astype(np.float32) for row in range(ROWS)],
        "fixed": random.integers(-9, 9, size=(ROWS, 3)).tolist(),
        "grid": random.integers(0, 255, size=(ROWS, 2, 3)).astype(np.uint8),
        "tags": [["a", "b"][: row % 3] for row in range(ROWS)],
        "flag": [row % 2 == 0 for row in range(ROWS)],
    }
    path = os.path.join(out, "values")
    values = hf.Dataset.from_dict(rows, features=features)
    values.map(lambda row: row, writer_batch_size=4, features=features).save_to_disk(path, num_shards=2)
    dtypes = {"number": np.int16, "real": np.float64, "vector": np.float32, "fixed": np.int64, "grid": np.uint8, "flag": np.bool_}
    typed = lambda name, value: np.asarray(value, dtypes[name]) if name in dtypes else value
    loaded = hf.load_from_disk(path)
    note("values", [
        {name: told(typed(name, value)) for name, value in row.items() if value is not None} for row in loaded
    ])


if __name__ == "__main__":
    copy(*sys.argv[1:]) if len(sys.argv) > 2 else save(sys.argv[1])
    # All files are written. During a normal exit, threads of the libraries may abort the interpreter.
    sys.stdout.flush()
    os._exit(0)
