"""Reads samples without images and compares every component with the source tree.

    read_files.py webdataset|streaming|tensorflow SOURCE FOLDER PAYLOAD

The tree has class folders. Files with one name are the components of a sample, named by extension. If PAYLOAD is `npy`, arrays are compared
by dtype, shape and bytes, as readers return them. Prints the number of samples. At the first error, prints one line and exits with 1.
"""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

Sample = tuple[int, dict[str, object]]


def plain(value: object) -> object:
    """An array or the content of a `.npy` file as a comparable tuple; any other value unchanged."""
    import numpy

    if isinstance(value, bytes) and value.startswith(b"\x93NUMPY"):
        value = numpy.load(io.BytesIO(value), allow_pickle=False)
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, numpy.ndarray) else value


def with_webdataset(folder: Path, names: set[str]) -> Iterator[Sample]:
    """Undecoded samples as webdataset groups them. Also checks that webdataset decodes arrays."""
    import numpy
    import webdataset

    shards = sorted(str(path) for path in folder.glob("*.tar"))
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        if "npy" in names:
            decoded = next(iter(webdataset.WebDataset(shards, shardshuffle=False).decode()))
            assert isinstance(decoded["npy"], numpy.ndarray), type(decoded["npy"])
        yield int(sample["cls"]), {name: sample[name] for name in names}
        extra = set(sample) - names - {"cls", "__key__", "__url__", "__local_path__"}
        assert not extra, extra


def with_streaming(folder: Path, names: set[str]) -> Iterator[Sample]:
    """Samples from StreamingDataset."""
    from streaming import StreamingDataset

    for sample in StreamingDataset(local=str(folder), shuffle=False, batch_size=1):
        assert set(sample) == names | {"label", "filename"}, set(sample)
        yield int(sample["label"]), {name: sample[name] for name in names}


def with_tensorflow(folder: Path, names: set[str]) -> Iterator[Sample]:
    """Samples from TensorFlow's parser of single examples. An example has no image features."""
    import os

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    files = sorted(str(path) for path in folder.iterdir() if "-of-" in path.name and path.suffix == "")
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
    features["class/label"] = tf.io.FixedLenFeature([], tf.int64)
    for record in tf.data.TFRecordDataset(files):
        example = tf.train.Example.FromString(record.numpy()).features.feature
        keys = set(example)
        if "npy/shape" in keys:
            import numpy

            assert keys == names | {"npy/shape", "class/label", "class/text", "filename"}, keys
            shape = list(example["npy/shape"].int64_list.value)
            array = numpy.array(example["npy"].float_list.value, numpy.float32).reshape(shape)
            yield int(example["class/label"].int64_list.value[0]), {"npy": array}
            continue
        assert keys == names | {"class/label", "class/text", "filename"}, keys
        parsed = tf.io.parse_single_example(record, features)
        yield int(parsed["class/label"]), {name: parsed[name].numpy() for name in names}


def tree(source: Path) -> dict[tuple[int, str], dict[str, bytes]]:
    """Components of each sample by label and name."""
    samples = {}
    for label, folder in enumerate(sorted(path for path in source.iterdir() if path.is_dir())):
        for file in folder.iterdir():
            samples.setdefault((label, file.stem), {})[file.suffix[1:]] = file.read_bytes()
    return samples


def main() -> None:
    how, source, folder, payload = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    expected = tree(source)
    names = {name for sample in expected.values() for name in sample}

    def compared(sample: dict[str, object]) -> dict[str, object]:
        return {name: plain(value) if payload == "npy" else value for name, value in sample.items()}

    if payload == "npy":
        import numpy

        for sample in expected.values():
            array = numpy.load(io.BytesIO(sample["npy"]), allow_pickle=False)
            assert array.dtype == numpy.float32 and array.shape[1] == 5
    left = [(label, compared(sample)) for (label, _), sample in expected.items()]
    count = 0
    for label, found in globals()[f"with_{how}"](folder, names):
        sample = label, compared(found)
        if sample not in left:
            sys.exit(f"sample {count} of label {sample[0]} is none of the tree")
        left.remove(sample)
        count += 1
    if left:
        sys.exit(f"{len(left)} samples of the tree did not come")
    print(count)


if __name__ == "__main__":
    main()
