"""Writes shards of samples without images: write_value_shards.py tfrecord|mds DST.

- `tfrecord/`: two files of `tf.train.Example`: features of each kind, with one value, several or none; `packed.tfrecord.gz`: the same
  as one file, compressed.
- `mds/`, `mds-zstd/`: columns of every streaming encoding except images.

NAME.json beside a file holds the text of every sample's fields, as `read_values.py` prints it.
"""

import json
import os
import sys
from decimal import Decimal

import numpy as np

from read_values import told

SAMPLES = 40
# NaN with a payload, the other sign, and infinities.
ODD = np.array([0x7FC12345, 0xFFC00001, 0x7F800000, 0xFF800000], np.uint32).view(np.float32)
ODD_DOUBLE = np.array([0x7FF8000000000123], np.uint64).view(np.float64)[0]


def expect(path, samples):
    """Writes NAME.json; `None` marks a missing field."""
    rows = [{name: told(value) for name, value in sample.items() if value is not None} for sample in samples]
    with open(path + ".json", "w") as out:
        json.dump(rows, out)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def floats(values):
    """A feature of floats, bit for bit: Python floats lose the payload of a NaN."""
    import tensorflow as tf

    content = np.asarray(values, np.float32).tobytes()
    inner = tf.train.FloatList.FromString(b"\x0a" + varint(len(content)) + content)
    return tf.train.Feature(float_list=inner)


def ints(values):
    """A feature of whole numbers."""
    import tensorflow as tf

    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def tfrecord(out):
    import tensorflow as tf

    def texts(values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    random = np.random.default_rng(3)
    examples, samples = [], []
    for number in range(SAMPLES):
        vector = random.normal(size=8).astype(np.float32)
        vector[:4] = ODD
        tokens = random.integers(-(1 << 60), 1 << 60, size=number % 4)
        scores = random.normal(size=1 + number % 3).astype(np.float32)
        matrix = random.normal(size=(2, number % 3)).astype(np.float32)
        double = random.normal(size=(3, 2))
        double[0, 0] = ODD_DOUBLE
        captions = [f"caption {one} \u00e9\u4e16 \"\\" for one in range(number % 3)]
        blob = b"looks like text" if number % 5 == 0 else bytes([0, 255, number])
        features = {
            "vector": floats(vector),
            "tokens": ints(tokens),
            "scores": floats(scores),
            "count": ints([number - 7]),
            "weight": floats(ODD[number % 4 : number % 4 + 1]),
            "caption": texts([f"sample {number} \u00e9\u4e16".encode()]),
            "captions": texts([caption.encode() for caption in captions]),
            "blob": texts([blob]),
            "nothing": texts([b""]),
            "matrix": floats(matrix.ravel()),
            "matrix/shape": ints(matrix.shape),
            "double": texts([double.tobytes()]),
            "double/dtype": texts([b"float64"]),
            "double/shape": ints(double.shape),
            "big": texts([np.arange(3, dtype=">i2").tobytes()]),
            "big/dtype": texts([b">i2"]),
            "big/shape": ints([3]),
            # A shape that does not match the values.
            "flat": floats([1, 2, 3]),
            "flat/shape": ints([5, 5]),
            "label": ints([number % 6]),
        }
        if number % 2:
            features["some"] = ints([number])
        else:
            features["some"] = tf.train.Feature()
        examples.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        samples.append(
            {
                "vector": vector,
                "tokens": tokens,
                "scores": scores,
                "count": number - 7,
                "weight": ODD[number % 4 : number % 4 + 1].reshape(()),
                "caption": f"sample {number} \u00e9\u4e16",
                "captions": captions,
                "blob": blob,
                "nothing": "",
                "matrix": matrix,
                "double": double,
                "big": np.arange(3, dtype=">i2"),
                "flat": np.array([1, 2, 3], np.float32),
                "flat_shape": np.array([5, 5]),
                "label": number % 6,
                "some": number if number % 2 else None,
            }
        )
    folder = os.path.join(out, "tfrecord")
    os.mkdir(folder)
    for file in range(2):
        with tf.io.TFRecordWriter(os.path.join(folder, f"x-{file:05}-of-00002")) as writer:
            for example in examples[file::2]:
                writer.write(example)
    packed = os.path.join(out, "packed.tfrecord.gz")
    with tf.io.TFRecordWriter(packed, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for example in examples:
            writer.write(example)
    expect(folder, samples)
    expect(packed, samples)


def mds(out):
    from streaming import MDSWriter

    scalars = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32"]
    columns = {
        "count": "int",
        "label": "int",
        "real": "float64",
        "odd": "float64",
        "any": "ndarray",
        "ragged": "ndarray:float32",
        "fixed": "ndarray:int16:2,3",
        "text": "str",
        "whole": "str_int",
        "huge": "str_int",
        "digits": "str_float",
        "decimal": "str_decimal",
        "blob": "bytes",
        "tree": "json",
        **{f"s_{name}": name for name in scalars},
    }
    random = np.random.default_rng(5)
    samples, told_samples = [], []
    dtypes = ["uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
    for number in range(SAMPLES):
        ragged = random.normal(size=(1 + number % 5, 2)).astype(np.float32)
        ragged.view(np.uint32)[0, 0] = 0x7FC12345
        sample = {
            "count": number - 7,
            "label": number % 5,
            "real": [0.1, float("nan"), float("inf"), -0.0, 1e-300][number % 5],
            "odd": ODD_DOUBLE if number == 17 else np.float64(number / 7),
            "any": random.integers(0, 100, size=(1 + number % 300,)).astype(dtypes[number % len(dtypes)]),
            "ragged": ragged,
            "fixed": random.integers(-9, 9, size=(2, 3)).astype(np.int16),
            "text": f"sample {number} \u00e9\u4e16\n" if number % 3 else "",
            "whole": -number,
            "huge": number if number % 2 else -(10**30) - number,
            "digits": [0.1, float("nan"), float("-inf"), 1e22, 5e-324][number % 5],
            "decimal": Decimal(number) / Decimal(8) if number else Decimal("1.50"),
            "blob": bytes([0, number, 255]) if number else b"",
            "tree": {"k": [number, None, "\u00e9"], "nan": float("inf") if number % 2 else 1.5},
        }
        for name in scalars:
            sample[f"s_{name}"] = getattr(np, name)(number % 100)
        sample["s_float32"] = ODD[number % 4]
        samples.append(sample)
        told_samples.append({**sample, "odd": np.asarray(sample["odd"]), "decimal": str(sample["decimal"])})
    for name, compression in [("mds", None), ("mds-zstd", "zstd")]:
        folder = os.path.join(out, name)
        with MDSWriter(out=folder, columns=columns, compression=compression, size_limit=1 << 12) as writer:
            for sample in samples:
                writer.write(sample)
        expect(folder, told_samples)
    # A pickle can run code, so shardpack omits and counts pickles.
    folder = os.path.join(out, "mds-pkl")
    with MDSWriter(out=folder, columns={"a": "int", "b": "pkl"}) as writer:
        for number in range(5):
            writer.write({"a": number, "b": {"x": number}})
    folder = os.path.join(out, "mds-pkl-alone")
    with MDSWriter(out=folder, columns={"b": "pkl"}) as writer:
        writer.write({"b": 1})


if __name__ == "__main__":
    {"tfrecord": tfrecord, "mds": mds}[sys.argv[1]](sys.argv[2])
