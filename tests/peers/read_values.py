"""Prints the components of samples as a reader of the format returns them: read_values.py FORMAT SHARDS FOLDER...

Prints one line of JSON per folder: a list with one object per sample. A field is text: dtype, shape and a hash of the bytes for an array,
type and value for any other field. Omits missing components and the name of the source file.
"""

import glob
import hashlib
import io
import json
import os
import sys

import numpy as np


def told(value):
    """Describes a value as text."""
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, (str, bytes)):
        array = np.asarray(value)
        return f"{array.dtype.str} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    if isinstance(value, bool) or value is None:
        return f"plain {value}"
    if isinstance(value, (list, dict)):
        return f"plain {json.dumps(value, sort_keys=True)}"
    if isinstance(value, float):
        return f"float {float(value)!r}"
    return f"{type(value).__name__} {value!r}"


def of_npy(content):
    """The array that a `.npy` file holds."""
    return np.load(io.BytesIO(content), allow_pickle=False)


def webdataset(folder, shards):
    import webdataset as wds

    unpack = f"pipe:{sys.executable} {os.path.join(os.path.dirname(__file__), 'unzstd.py')} "
    # Only the shards, no other files.
    files = sorted(file for end in (".tar", ".tar.zst") for file in glob.glob(f"{glob.escape(folder)}/shard-*{end}"))
    assert len(files) == int(shards), files
    urls = [unpack + file if file.endswith(".zst") else file for file in files]
    for sample in wds.WebDataset(urls, shardshuffle=False).decode():
        found = {}
        for name, value in sample.items():
            if name == "cls":
                found["label"] = value
            elif not name.startswith("__"):
                found[name.rsplit(".", 1)[0]] = value
        yield found


# Decodes bytes from streaming by type, for values without an encoding in streaming.
def of_bytes(name, content, types):
    kind = types[name]
    if kind.startswith(("text", "json", "int", "float")):
        text = content.decode()
        return text if kind.startswith("text") else json.loads(text)
    return content if kind.startswith("bytes") else of_npy(content)


def types_of(folder):
    """The type of each value, as the manifest has it."""
    settings = json.load(open(f"{folder}/manifest.json"))["format"]["settings"]
    listed = [settings.get("payload")] + settings.get("beside", "").split(",")
    return {one.split(":")[0].rsplit(".", 1)[0]: one.split(":")[1] for one in listed if one and ":" in one}


def mds(folder, _):
    from streaming import StreamingDataset

    types = types_of(folder)
    for sample in StreamingDataset(local=folder, shuffle=False, batch_size=1):
        found = {}
        for name, value in sample.items():
            if name in types and isinstance(value, bytes):
                # A component that a sample lacks is empty.
                if value or not types[name].endswith("?"):
                    found[name] = of_bytes(name, value, types)
            elif name != "filename":
                found[name] = float(value) if types.get(name, "").startswith("float") else value
        yield found


def tfrecord(folder, shards):
    import tensorflow as tf

    types = types_of(folder)
    files = sorted(tf.io.gfile.glob(f"{folder}/shard-*-of-{int(shards):05}"))
    for record in tf.data.TFRecordDataset(files):
        example = tf.train.Example.FromString(record.numpy())
        features = {}
        for name, feature in example.features.feature.items():
            values = getattr(feature, feature.WhichOneof("kind")).value
            features[name] = (feature.WhichOneof("kind"), list(values))
        found = {}
        if "class/label" in features:
            found["label"] = features["class/label"][1][0]
        for name, kind in types.items():
            if name not in features:
                continue
            of, values = features[name]
            shape = features.get(f"{name}/shape", (None, []))[1]
            dtype = features.get(f"{name}/dtype", (None, [b""]))[1][0].decode()
            if of == "float_list":
                found[name] = np.array(values, np.float32).reshape(shape)
                # Python floats lose the payload of a NaN, so the bytes come from the tensor.
                spec = {name: tf.io.RaggedFeature(tf.float32)}
                tensor = tf.io.parse_single_example(record, spec)[name]
                found[name] = tensor.numpy().reshape(shape)
            elif of == "int64_list":
                is_number = kind.startswith("int")
                found[name] = values[0] if is_number else np.array(values, np.int64).reshape(shape)
            elif dtype:
                array = np.frombuffer(values[0], dtype).reshape(shape)
                found[name] = float(array[()]) if kind.startswith("float") else array
            elif kind.startswith("text"):
                found[name] = values[0].decode()
            else:
                found[name] = values[0] if kind.startswith("bytes") else json.loads(values[0])
        yield found


def main():
    readers = {"webdataset": webdataset, "mds": mds, "tfrecord": tfrecord}
    for folder in sys.argv[3:]:
        samples = readers[sys.argv[1]](folder, sys.argv[2])
        print(json.dumps([{name: told(value) for name, value in sample.items()} for sample in samples]))


if __name__ == "__main__":
    main()
