"""Writes parquet files without images, with pyarrow: write_parquet.py DST; or with Hugging Face datasets: write_parquet.py DST datasets.

- `types.parquet`: columns of every type, in row groups of 7 rows, with nulls, empty lists, NaN with payloads, and text in several scripts;
- `lists.parquet`: columns of bytes, lists and structures, in the same way;
- `codecs/CODEC/x.parquet`: some of these with each codec, in small pages with checksums, and without dictionaries;
- `partly.parquet`: `x` and a label that one row lacks; `images.parquet`: lists of images with a text;
- `xy/1.parquet`, `xy/2.parquet`: `x`, lists of 64 float32, and `y`, a label, as two files of one dataset;
- `features.parquet`, of datasets: `Array2D`, `Sequence`, `ClassLabel`, `Audio`, `Value` of all kinds.

NAME.json beside a file holds the text of every sample's fields, as `read_values.py` prints it.
"""

import decimal
import io
import json
import os
import sys

import numpy as np

from read_values import told

ROWS = 30
INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
# NaN with a payload, the other sign, infinities, and negative zero.
SINGLES = np.array([0x7FC12345, 0xFFC00001, 0x7F800000, 0xFF800000, 0x80000000], np.uint32).view(np.float32)
DOUBLES = np.array([0x7FF8000000012345, 0xFFF8000000000000, 0x7FF0000000000000, 0x8000000000000000], np.uint64).view(np.float64)


def expect(path, samples):
    """Writes NAME.json; `None` marks a missing field."""
    rows = [{name: told(value) for name, value in sample.items() if value is not None} for sample in samples]
    with open(path + ".json", "w") as out:
        json.dump(rows, out)


def columns(random):
    """Name, type and values of each column, and the function from a value to a sample's field."""
    import pyarrow as pa

    plain = lambda value: value
    scalar = lambda dtype: lambda value: np.asarray(value, dtype)
    for dtype in INTS:
        ends = np.iinfo(dtype)
        values = [[ends.min, ends.max, int(random.integers(0, 100))][row % 3] for row in range(ROWS)]
        yield dtype, getattr(pa, dtype)(), values, scalar(dtype)
    singles = np.array([SINGLES[row % 5] if row % 2 else np.float32(row / 3) for row in range(ROWS)], np.float32)
    yield "float32", pa.float32(), singles, scalar(np.float32)
    doubles = np.array([DOUBLES[row % 4] if row % 2 else row / 3 for row in range(ROWS)])
    yield "float64", pa.float64(), doubles, scalar(np.float64)
    yield "float16", pa.float16(), [np.float16(row / 3) for row in range(ROWS)], scalar(np.float16)
    yield "yes", pa.bool_(), [row % 3 == 0 for row in range(ROWS)], scalar(bool)
    yield "text", pa.string(), [["", "plain", "\u00e9\u4e2d\U0001f600", "a\nb\0c"][row % 4] for row in range(ROWS)], plain
    yield "long", pa.large_string(), [f"row {row}" for row in range(ROWS)], plain
    yield "bytes", pa.binary(), [bytes([0, row, 255]) for row in range(ROWS)], plain
    yield "fixed", pa.binary(3), [bytes([1, row, 0]) for row in range(ROWS)], plain
    lacking = lambda values: [None if row % 4 == 1 else value for row, value in enumerate(values)]
    yield "some", pa.int32(), lacking(range(ROWS)), lambda value: value if value is None else np.asarray(value, np.int32)
    yield "words", pa.dictionary(pa.int8(), pa.string()), lacking([f"w{row % 3}" for row in range(ROWS)]), plain

    array = lambda dtype: lambda value: value if value is None else np.asarray(value, dtype)
    vectors = [random.normal(size=8).astype(np.float32) for _ in range(ROWS)]
    vectors[3][:5] = SINGLES
    yield "vector", pa.list_(pa.float32()), vectors, array(np.float32)
    yield "fixed_size", pa.list_(pa.float64(), 3), [random.normal(size=3) for _ in range(ROWS)], array(np.float64)
    varying = [list(range(row % 5)) for row in range(ROWS)]
    yield "varying", pa.list_(pa.uint8()), varying, array(np.uint8)
    yield "maybe", pa.list_(pa.int64()), lacking(varying), array(np.int64)
    grid = [random.integers(0, 9, size=(1 + row % 3, 4)).tolist() for row in range(ROWS)]
    yield "grid", pa.list_(pa.list_(pa.int16())), grid, array(np.int16)
    yield "flags", pa.list_(pa.bool_()), [[True, False, row % 2 == 0] for row in range(ROWS)], array(bool)

    yield "holes", pa.list_(pa.int32()), [[row, None] for row in range(ROWS)], plain
    yield "ragged", pa.list_(pa.list_(pa.int32())), [[[1], [2, row]] for row in range(ROWS)], plain
    yield "tags", pa.list_(pa.string()), [["a"] * (row % 3) for row in range(ROWS)], plain
    struct = pa.struct([("id", pa.int64()), ("name", pa.string()), ("parts", pa.list_(pa.float64()))])
    yield "struct", struct, [{"id": row, "name": None, "parts": [0.5, float(row)]} for row in range(ROWS)], plain


def with_pyarrow(out):
    import pyarrow as pa
    import pyarrow.parquet as pq

    all = list(columns(np.random.default_rng(5)))
    arrays = {name: pa.array(values, kind) for name, kind, values, _ in all}
    samples = [{name: tell(values[row]) for name, _, values, tell in all} for row in range(ROWS)]
    whole = pa.table(arrays)
    # Two files, because a sample cannot hold all columns.
    halves = {"types": list(arrays)[:14], "lists": ["int64"] + list(arrays)[14:]}
    for name, columns_of in halves.items():
        path = os.path.join(out, f"{name}.parquet")
        table = whole.select(columns_of)
        if name == "types":
            when = pa.array(range(ROWS), pa.timestamp("ms"))
            table = table.append_column("when", when).append_column("money", pa.array([decimal.Decimal("1.5")] * ROWS))
        pq.write_table(table, path, row_group_size=7)
        expect(path, [{name: sample[name] for name in columns_of} for sample in samples])
    names = ["int64", "float32", "vector", "grid", "text", "some"]
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        folder = os.path.join(out, "codecs", codec)
        os.makedirs(folder)
        options = {"use_dictionary": False, "data_page_size": 64, "write_page_checksum": True, "row_group_size": 9}
        pq.write_table(whole.select(names), os.path.join(folder, "x.parquet"), compression=codec, **options)
        expect(folder, [{name: sample[name] for name in names} for sample in samples])

    label = pa.array([None if row == 3 else row % 3 for row in range(ROWS)], pa.int64())
    partly = pa.table({"x": arrays["vector"], "label": label})
    # A table of values that looks like a list.
    pq.write_table(whole.select(["long", "vector"]).rename_columns(["path", "x"]), os.path.join(out, "paths.parquet"))
    note = {"info": {"features": {"label": {"names": ["ant", "bee", "cat"], "_type": "ClassLabel"}}}}
    pq.write_table(partly.replace_schema_metadata({"huggingface": json.dumps(note)}), os.path.join(out, "partly.parquet"))
    image = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    images = pa.array([[{"bytes": b"\xff\xd8\xff\xe0", "path": "a.jpg"}]] * 3, image)
    pq.write_table(pa.table({"images": images, "text": ["a", "b", "c"]}), os.path.join(out, "images.parquet"))

    os.mkdir(os.path.join(out, "xy"))
    random = np.random.default_rng(6)
    x, y = random.normal(size=(60, 64)).astype(np.float32), random.integers(0, 9, size=60)
    y[0] = 8
    for file in range(2):
        own = slice(30 * file, 30 * file + 30)
        table = pa.table({"x": pa.array(list(x[own]), pa.list_(pa.float32())), "y": y[own]})
        pq.write_table(table, os.path.join(out, "xy", f"{file + 1}.parquet"))
    expect(os.path.join(out, "xy"), [{"x": row, "label": int(label)} for row, label in zip(x, y)])


def wav(number):
    """A file of a few samples of sound."""
    sound = bytes(range(number % 7 * 2))
    head = b"WAVEfmt " + np.array([16], "<u4").tobytes() + np.array([1, 1], "<u2").tobytes()
    head += np.array([8000, 16000], "<u4").tobytes() + np.array([2, 16], "<u2").tobytes()
    body = head + b"data" + np.array([len(sound)], "<u4").tobytes() + sound
    return b"RIFF" + np.array([len(body)], "<u4").tobytes() + body


def with_datasets(out):
    import datasets as hf
    import pyarrow.parquet as pq

    random = np.random.default_rng(8)
    features = hf.Features({
        # The struct that `Audio` stores. The feature `Audio` itself needs a decoder.
        "sound": {"bytes": hf.Value("binary"), "path": hf.Value("string")},
        "grid": hf.Array2D(shape=(3, 4), dtype="float32"),
        "cube": hf.Array3D(shape=(None, 2, 2), dtype="uint8"),
        "embedding": hf.Sequence(hf.Value("float16")),
        "label": hf.ClassLabel(names=["ant", "bee", "cat"]),
        "note": hf.Value("string"),
        "score": hf.Value("float64"),
    })
    rows = []
    for row in range(ROWS):
        rows.append({
            "sound": {"bytes": wav(row), "path": f"clip {row}.wav"},
            "grid": random.normal(size=(3, 4)).astype(np.float32),
            "cube": random.integers(0, 255, size=(row % 3, 2, 2)).astype(np.uint8),
            "embedding": random.normal(size=5).astype(np.float16),
            "label": row % 3,
            "note": f"row {row} \u00e9" if row % 5 else None,
            "score": DOUBLES[row % 4] if row % 2 else float(row),
        })
    columns = {name: [row[name] for row in rows] for name in features}
    path = os.path.join(out, "features.parquet")
    hf.Dataset.from_dict(columns, features=features).to_parquet(path)
    table = pq.read_table(path)
    note = json.loads(table.schema.metadata[b"huggingface"])
    note["info"]["features"]["sound"] = {"_type": "Audio"}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(note)}), path, row_group_size=11)
    expect(path, [
        {**row, "sound": row["sound"]["bytes"], "sound.path": row["sound"]["path"], "score": np.asarray(row["score"])}
        for row in rows
    ])


if __name__ == "__main__":
    (with_datasets if sys.argv[2:] == ["datasets"] else with_pyarrow)(sys.argv[1])
    # All files are written. During a normal exit, threads of the libraries may abort the interpreter.
    sys.stdout.flush()
    os._exit(0)
