"""Writes four samples with numbers that are no classes to files of all kinds in a folder, its argument.

x.parquet, x.lmdb, x.h5, x.tfrecord, x.mds (a folder), json.tar and files.tar have the fields age (1.5 to 4.5), count (7 to 10) and vec
(two numbers); json.tar has them as members of json, files.tar as files. x.parquet, x.lmdb, json.tar and files.tar have a text, too.
bad.tar has a field age without a value, and one with a word. labels.tar, labels.parquet, labels.h5, labels.tfrecord and labels.lmdb have
labels with fractions: 1.5, 2, 2.5, 3. odd.parquet has a decimal, a time, and whole numbers beyond int64.
"""

import io
import json
import pickle
import struct
import sys
import tarfile
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import h5py
import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tfrecord import TFRecordWriter

ROWS = range(4)
OUT = Path(sys.argv[1])
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ODD = [("dec", pa.decimal128(10, 2)), ("time", pa.timestamp("us")), ("big", pa.uint64()), ("count", pa.int64())]


def image(n):
    start = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0"
    return start + bytes([n]) * (5000 + n - len(start) - 2) + b"\xff\xd9"


def row(n):
    return {"age": n + 1.5, "count": n + 7, "vec": [n / 2, 1.0], "text": f"text {n}"}


def label(n):
    return 1.5 + n / 2


def write_parquet(path, rows, schema=None):
    pq.write_table(pa.Table.from_pylist([{"image": {"bytes": image(n), "path": f"{n}.jpg"}, **rows(n)} for n in ROWS], schema=schema), path)


def write_tar(path, files):
    with tarfile.open(path, "w") as tar:
        for n in ROWS:
            for extension, content in {"jpg": image(n), **files(n)}.items():
                info = tarfile.TarInfo(f"{n}.{extension}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def write_lmdb(path, rows):
    with lmdb.open(str(path), map_size=1 << 24, subdir=False) as env, env.begin(write=True) as txn:
        for n in ROWS:
            txn.put(b"%06d" % n, pickle.dumps({"image": image(n), **rows(n)}))


def write_hdf5(path, columns):
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (len(ROWS),), dtype=h5py.vlen_dtype(np.uint8))
        for n in ROWS:
            images[n] = np.frombuffer(image(n), np.uint8)
        for name, column in columns.items():
            file[name] = np.array(column)


def write_tfrecord(path, features):
    writer = TFRecordWriter(str(path))
    for n in ROWS:
        writer.write({"image": (image(n), "byte"), **features(n)})
    writer.close()


def write_mds(folder):
    names, encodings = ["age", "count", "image", "vec"], ["float64", "int", "bytes", "ndarray:float32:2"]
    sizes = [8, 8, None, 8]
    samples = []
    for n in ROWS:
        r = row(n)
        values = [np.float64(r["age"]), np.int64(r["count"]), np.frombuffer(image(n), np.uint8), np.float32(r["vec"])]
        samples.append(struct.pack("<I", len(image(n))) + b"".join(value.tobytes() for value in values))
    config = dict(column_encodings=encodings, column_names=names, column_sizes=sizes, compression=None, format="mds")
    config.update(hashes=[], size_limit=1 << 26)
    text = json.dumps(config, sort_keys=True).encode()
    ends = np.cumsum([4 + 4 * (len(ROWS) + 1) + len(text)] + [len(sample) for sample in samples]).astype("<u4")
    data = struct.pack("<I", len(ROWS)) + ends.tobytes() + text + b"".join(samples)
    folder.mkdir()
    (folder / "shard.00000.mds").write_bytes(data)
    raw = dict(basename="shard.00000.mds", bytes=len(data), hashes={})
    shard = dict(config, raw_data=raw, samples=len(ROWS), version=2, zip_data=None)
    (folder / "index.json").write_text(json.dumps(dict(shards=[shard], version=2)))


def npy(values):
    out = io.BytesIO()
    np.save(out, np.array(values))
    return out.getvalue()


write_parquet(OUT / "x.parquet", row)
write_lmdb(OUT / "x.lmdb", row)
write_hdf5(OUT / "x.h5", {name: [row(n)[name] for n in ROWS] for name in ["age", "count", "vec"]})
kinds = {"age": "float", "count": "int", "vec": "float"}
write_tfrecord(OUT / "x.tfrecord", lambda n: {name: (row(n)[name], kind) for name, kind in kinds.items()})
write_mds(OUT / "x.mds")
write_tar(OUT / "json.tar", lambda n: {"json": json.dumps(row(n)).encode()})
write_tar(
    OUT / "files.tar",
    lambda n: {"age.txt": b"%.1f" % row(n)["age"], "count.json": b"%d" % (n + 7), "vec.npy": npy(row(n)["vec"]), "txt": b"text"},
)
write_tar(OUT / "bad.tar", lambda n: {"cls": b"%d" % (n % 2), "age.txt": [b"1", b"old", b"", b"4"][n]})
of_odd = lambda n: {"dec": Decimal(n), "time": datetime(2020, 1, 1), "big": [7, 8, 9, 2**63][n], "count": n}
write_parquet(OUT / "odd.parquet", of_odd, pa.schema([("image", IMAGE), *ODD]))
write_tar(OUT / "labels.tar", lambda n: {"cls": b"%.1f" % label(n)})
write_parquet(OUT / "labels.parquet", lambda n: {"label": label(n)})
write_hdf5(OUT / "labels.h5", {"labels": [label(n) for n in ROWS]})
write_tfrecord(OUT / "labels.tfrecord", lambda n: {"label": (label(n), "float")})
write_lmdb(OUT / "labels.lmdb", lambda n: {"label": label(n)})
