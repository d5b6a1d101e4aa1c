"""Writes tars of samples without images with webdataset, and reads the samples from every format.

    tar_values.py write FOLDER          three shards, and expected.json
    tar_values.py webdataset|mds|tfrecord DATASET

Reading prints a JSON list: for each sample the label and the text of each component. The text is dtype, shape and a hash of the bytes for
an array, a hash for any other component. Arrays are numpy arrays for every format.
"""

import hashlib
import io
import json
import sys
from pathlib import Path

import numpy as np

NAMES = ["flac", "json", "npy", "txt"]


def told(value):
    """Describes a value as text."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return hashlib.sha256(value).hexdigest()


def told_sample(label, components):
    return {"label": int(label), **{name: told(value) for name, value in components.items() if value is not None}}


def write(folder):
    import webdataset as wds

    random = np.random.default_rng(5)
    expected = []
    with wds.ShardWriter(f"{folder}/part-%06d.tar", maxcount=9, verbose=0) as out:
        for number in range(24):
            array = random.normal(size=(number % 5, 4)).astype(np.float32)
            # NaN with a payload.
            array.view(np.uint32).reshape(-1)[:1] = 0x7FC12345
            sample = {
                "__key__": f"speech/{number:04}",
                "flac": random.bytes(500 + number),
                "npy": array,
                "json": {"n": number, "speaker": f"s{number % 4}"},
                "cls": number % 3,
            }
            if number % 7:
                sample["txt"] = f"said {number} \u00e9"
            out.write(sample)
            text = sample["txt"].encode() if "txt" in sample else None
            stored = {"flac": sample["flac"], "npy": array, "json": json.dumps(sample["json"]).encode(), "txt": text}
            expected.append(told_sample(number % 3, stored))
    Path(folder, "expected.json").write_text(json.dumps(expected))


def webdataset(folder):
    import webdataset as wds

    for sample in wds.WebDataset(sorted(map(str, Path(folder).glob("*.tar"))), shardshuffle=False):
        components = {name: sample.get(name) for name in NAMES}
        components["npy"] = np.load(io.BytesIO(components["npy"]), allow_pickle=False)
        yield told_sample(sample["cls"], components)


def mds(folder):
    from streaming import StreamingDataset

    for sample in StreamingDataset(local=folder, shuffle=False, batch_size=1):
        # A missing component is empty.
        components = {name: sample[name] or None for name in NAMES if name != "npy"}
        yield told_sample(sample["label"], components | {"npy": sample["npy"]})


def tfrecord(folder):
    import os

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    files = sorted(str(path) for path in Path(folder).glob("shard-*-of-*") if not path.suffix)
    for record in tf.data.TFRecordDataset(files):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        array = tf.io.parse_single_example(record, {"npy": tf.io.RaggedFeature(tf.float32)})["npy"].numpy()
        shape = list(features["npy/shape"].int64_list.value)
        # A missing component is empty.
        components = {name: features[name].bytes_list.value[0] or None for name in NAMES if name != "npy"}
        yield told_sample(features["class/label"].int64_list.value[0], components | {"npy": array.reshape(shape)})


def main():
    how, folder = sys.argv[1:]
    if how == "write":
        return write(folder)
    print(json.dumps(list(globals()[how](folder))))


if __name__ == "__main__":
    main()
