"""Writes images with arrays beside them: write_beside.py parquet|datasets|hdf5|tfrecord|mds OUT.

- `x.parquet` of pyarrow, `hf.parquet` of `datasets`, `x.h5`, `x.tfrecord` of TensorFlow, `mds/` of streaming: rows of an image, a label, a
  caption, a number, and arrays of several dtypes and shapes;
- `no-image.*`: the same, but one row lacks its image; `fields.parquet`: with two images and three labels; `many.parquet`: long lists.

NAME.json beside a file holds the text of every sample's arrays, as `read_values.py` prints it.
"""

import os
import sys

import numpy as np

from write_value_shards import expect, floats, ints

SAMPLES = 20
# NaN with a payload and with the other sign, infinities, and the smallest positive number.
ODD = np.array([0x7FC12345, 0xFFC00001, 0x7F800000, 0xFF800000, 1], np.uint32).view(np.float32)


def photo():
    with open(os.path.join(os.path.dirname(__file__), "../../fixtures/photos/textures/fur.jpg"), "rb") as file:
        return file.read()


def rows():
    random = np.random.default_rng(12)
    image = photo()
    for number in range(SAMPLES):
        embedding = random.normal(size=64).astype(np.float32)
        embedding[:5] = ODD
        yield {
            "image": image + bytes([number]),
            "label": number % 3,
            "caption": f"no {number}, naïve",
            "score": np.float32(0.1 * number),
            "embedding": embedding,
            "tokens": random.integers(-(1 << 62), 1 << 62, size=number % 4),
        }


def text(sample):
    """The arrays of a sample. Other fields become text, which other tests compare."""
    return {name: value for name, value in sample.items() if name not in ("image", "label", "caption", "score")}


def parquet(out):
    import pyarrow as pa
    import pyarrow.parquet as pq

    samples = list(rows())
    random = np.random.default_rng(13)
    for number, sample in enumerate(samples):
        sample["boxes"] = random.normal(size=(number % 3, 4)) if number % 3 else np.zeros((0, 0))
        sample["half"] = np.float16(number / 7)
        sample["flags"] = np.array([number % 2 == 0, True])
        sample["maybe"] = None if number % 5 == 0 else np.arange(number, dtype=np.uint16)
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

    def column(name, kind):
        return pa.array([None if s[name] is None else s[name].tolist() for s in samples], kind)

    columns = {
        "image": pa.array([{"bytes": s["image"], "path": None} for s in samples], struct),
        "label": pa.array([s["label"] for s in samples]),
        "caption": pa.array([s["caption"] for s in samples]),
        "score": pa.array([s["score"] for s in samples], pa.float32()),
        # Python lists lose the payload of a NaN.
        "embedding": pa.FixedSizeListArray.from_arrays(np.concatenate([s["embedding"] for s in samples]), 64),
        "tokens": column("tokens", pa.list_(pa.int64())),
        "boxes": column("boxes", pa.list_(pa.list_(pa.float64()))),
        "half": pa.array([s["half"] for s in samples], pa.float16()),
        "flags": column("flags", pa.list_(pa.bool_())),
        "maybe": column("maybe", pa.list_(pa.uint16())),
        # Not arrays: one column has nulls in lists, the other has lists of different lengths.
        "holes": pa.array([[number, None][: number % 3] for number in range(SAMPLES)], pa.list_(pa.int32())),
        "ragged": pa.array([[[1.5], [2.0, number]] for number in range(SAMPLES)], pa.list_(pa.list_(pa.float32()))),
    }
    path = os.path.join(out, "x.parquet")
    pq.write_table(pa.table(columns), path, row_group_size=7)
    expect(path, [text(sample) for sample in samples])
    lacking = pa.array([None if n == 3 else {"bytes": s["image"], "path": None} for n, s in enumerate(samples)], struct)
    pq.write_table(pa.table(columns | {"image": lacking}), os.path.join(out, "no-image.parquet"))
    fields = {
        "image": columns["image"],
        "label": columns["label"],
        "second": pa.array([s["image"] + b"second" for s in samples]),
        "quality": pa.array([number % 4 for number in range(SAMPLES)]),
        "several": pa.array([[number % 2, number % 5] for number in range(SAMPLES)]),
        "embedding": columns["embedding"],
    }
    pq.write_table(pa.table(fields), os.path.join(out, "fields.parquet"))
    # One row group with more values than shardpack converts to text.
    many = pa.array([np.zeros(1 << 20, np.int8) for _ in range(17)], pa.list_(pa.int8()))
    images = pa.array([s["image"] for s in samples[:17]])
    pq.write_table(pa.table({"image": images, "many": many}), os.path.join(out, "many.parquet"), compression="zstd")


def datasets(out):
    import datasets

    samples = list(rows())
    for number, sample in enumerate(samples):
        sample["grid"] = np.arange(12, dtype=np.float32).reshape(3, 4) + number
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["ant", "bee", "cat"]),
            "caption": datasets.Value("string"),
            "score": datasets.Value("float32"),
            "embedding": datasets.Sequence(datasets.Value("float32"), length=64),
            "tokens": datasets.Sequence(datasets.Value("int64")),
            "grid": datasets.Array2D(shape=(3, 4), dtype="float32"),
        }
    )
    columns = {name: [sample[name] for sample in samples] for name in features}
    columns["image"] = [{"bytes": image, "path": None} for image in columns["image"]]
    path = os.path.join(out, "hf.parquet")
    datasets.Dataset.from_dict(columns, features=features).to_parquet(path)
    expect(path, [text(sample) for sample in samples])


def hdf5(out):
    import h5py

    samples = list(rows())
    random = np.random.default_rng(14)
    for number, sample in enumerate(samples):
        sample["depth"] = random.normal(size=(3, 5)).astype(">f8")
        sample["mask"] = random.integers(0, 255, size=(4, 4), dtype=np.uint8)
        sample["bytes_of"] = random.integers(0, 255, size=7, dtype=np.uint8)
        sample["flags"] = np.array([number % 2 == 0, True])
        sample["half"] = np.float16(number / 7)
    path = os.path.join(out, "x.h5")
    with h5py.File(path, "w") as file:
        images = file.create_dataset("images", (SAMPLES,), h5py.vlen_dtype(np.uint8))
        file["labels"] = [sample["label"] for sample in samples]
        file["caption"] = [sample["caption"] for sample in samples]
        for name in ["score", "embedding", "depth", "mask", "bytes_of", "flags", "half"]:
            file[name] = np.array([sample[name] for sample in samples], samples[0][name].dtype)
        tokens = file.create_dataset("tokens", (SAMPLES,), h5py.vlen_dtype(np.int64))
        for number, sample in enumerate(samples):
            images[number] = np.frombuffer(sample["image"], np.uint8)
            tokens[number] = sample["tokens"]
    expect(path, [text(sample) for sample in samples])


def tfrecord(out):
    import tensorflow as tf

    def texts(*values):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    samples, examples = list(rows()), []
    for number, sample in enumerate(samples):
        # Some samples have one box, others have several.
        sample["image_object_bbox_xmin"] = np.linspace(0, 1, 1 + number % 3, dtype=np.float32)
        sample["image_object_class_label"] = np.arange(number % 3 + 1)
        sample["double"] = np.arange(6.0).reshape(3, 2) / 7
        sample["grid"] = np.arange(number % 2 * 6, dtype=np.float32).reshape(2, -1)
        features = {
            "image/encoded": texts(sample["image"]),
            "image/class/label": ints([sample["label"]]),
            "image/height": ints([2]),
            "caption": texts(sample["caption"].encode()),
            "score": floats([sample["score"]]),
            "count": ints([number]),
            "embedding": floats(sample["embedding"]),
            "tokens": ints(sample["tokens"]),
            "image/object/bbox/xmin": floats(sample["image_object_bbox_xmin"]),
            "image/object/class/label": ints(sample["image_object_class_label"]),
            "double": texts(sample["double"].tobytes()),
            "double/dtype": texts(b"float64"),
            "double/shape": ints(sample["double"].shape),
            "grid": floats(sample["grid"].ravel()),
            "grid/shape": ints(sample["grid"].shape),
            "real": texts(np.float64(number / 3).tobytes()),
            "real/dtype": texts(b"float64"),
            "nothing": tf.train.Feature(),
        }
        examples.append(features)
    path = os.path.join(out, "x.tfrecord")
    serialized = lambda features: tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    with tf.io.TFRecordWriter(path) as writer:
        for features in examples:
            writer.write(serialized(features))
    expect(path, [text(sample) for sample in samples])
    with tf.io.TFRecordWriter(os.path.join(out, "no-image.tfrecord")) as writer:
        for number, features in enumerate(examples):
            writer.write(serialized(features | ({"image/encoded": texts(b"none")} if number == 3 else {})))


def mds(out):
    from streaming import MDSWriter

    columns = {
        "image": "bytes",
        "label": "int",
        "caption": "str",
        "score": "float32",
        "embedding": "ndarray:float32:64",
        "tokens": "ndarray:int64",
        "any": "ndarray",
    }
    samples = list(rows())
    for number, sample in enumerate(samples):
        # Streaming has no empty arrays.
        sample["tokens"] = np.arange(-number, number % 4 + 1)
        sample["any"] = np.arange(number + 1, dtype=["uint8", "float16", "float64"][number % 3]).reshape(1, -1)
    folder = os.path.join(out, "mds")
    with MDSWriter(out=folder, columns=columns, size_limit=1 << 16) as writer:
        for sample in samples:
            writer.write({name: sample[name] for name in columns})
    expect(folder, [text(sample) for sample in samples])


if __name__ == "__main__":
    writers = {"parquet": parquet, "datasets": datasets, "hdf5": hdf5, "tfrecord": tfrecord, "mds": mds}
    writers[sys.argv[1]](sys.argv[2])
