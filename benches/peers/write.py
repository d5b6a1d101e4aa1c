"""Pack an ImageFolder with a writer of somebody else, and print the seconds and CPU seconds it took.

    write.py webdataset|mds|mds-sha1|tfrecord|recordio SOURCE DESTINATION

Imports are not counted. What is: listing, shuffle, reading, writing, and an fsync of every file and folder, as shardpack
does it. Shards have 256 MiB, but for mds-sha1, which has streaming's default of 64 MiB; everything else is the writer's
default, so there are no hashes, but for mds-sha1. The last three write what shardpack writes in that format, but for
height, width and kind of the images in TFRecord.
"""

import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

SHARD_BYTES = 256 << 20

Samples = list[tuple[Path, int]]
# Each `with_` function imports what it needs and returns one of these.
Write = Callable[[Samples, Path], None]


def shuffled(source: Path) -> Samples:
    """Paths and labels in an order that is the same in each run."""
    classes = sorted(entry.name for entry in os.scandir(source) if entry.is_dir())
    samples = []
    for label, name in enumerate(classes):
        folder = source / name
        samples += [(folder / file, label) for file in sorted(os.listdir(folder))]
    random.Random(0).shuffle(samples)
    return samples


def in_shards(samples: Samples) -> Iterator[tuple[int, Iterator[tuple[int, int, Path, int, bytes]]]]:
    """Number of each shard, and its samples: its number again, the sample's, path, label and image. Images are read one
    at a time."""

    def read() -> Iterator[tuple[int, int, Path, int, bytes]]:
        shard = taken = 0
        for number, (path, label) in enumerate(samples):
            image = path.read_bytes()
            if taken and taken + len(image) > SHARD_BYTES:
                shard, taken = shard + 1, 0
            taken += len(image)
            yield shard, number, path, label, image

    return itertools.groupby(read(), key=lambda sample: sample[0])


def with_webdataset() -> Write:
    import webdataset

    def write(samples: Samples, destination: Path) -> None:
        destination.mkdir()
        pattern = f"{destination}/shard-%06d.tar"
        with webdataset.ShardWriter(pattern, maxcount=len(samples), maxsize=SHARD_BYTES, verbose=0) as writer:
            for number, (path, label) in enumerate(samples):
                writer.write({"__key__": f"{number:08}", "jpg": path.read_bytes(), "cls": label})

    return write


def with_mds() -> Write:
    from streaming import MDSWriter

    def write(samples: Samples, destination: Path) -> None:
        columns = {"image": "bytes", "label": "int"}
        with MDSWriter(out=str(destination), columns=columns, size_limit=SHARD_BYTES) as writer:
            for path, label in samples:
                writer.write({"image": path.read_bytes(), "label": label})

    return write


def with_mds_sha1() -> Write:
    from streaming import MDSWriter

    def write(samples: Samples, destination: Path) -> None:
        columns = {"filename": "str", "image": "bytes", "label": "int"}
        with MDSWriter(out=str(destination), columns=columns, hashes=["sha1"]) as writer:
            for path, label in samples:
                name = f"{path.parent.name}/{path.name}"
                writer.write({"filename": name, "image": path.read_bytes(), "label": label})

    return write


def with_tfrecord() -> Write:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    # TensorFlow imports much of itself when it is first used: that is not counted either.
    writer = tf.io.TFRecordWriter
    Example, Features, Feature = tf.train.Example, tf.train.Features, tf.train.Feature
    BytesList, Int64List = tf.train.BytesList, tf.train.Int64List

    def data(value: bytes) -> Feature:
        return Feature(bytes_list=BytesList(value=[value]))

    def write(samples: Samples, destination: Path) -> None:
        destination.mkdir()
        for shard, inside in in_shards(samples):
            with writer(f"{destination}/shard-{shard:05}") as records:
                for _, _, path, label, image in inside:
                    feature = {
                        "image/encoded": data(image),
                        "image/class/label": Feature(int64_list=Int64List(value=[label])),
                        "image/class/text": data(path.parent.name.encode()),
                        "image/filename": data(path.name.encode()),
                    }
                    records.write(Example(features=Features(feature=feature)).SerializeToString())

    return write


def with_recordio() -> Write:
    from mxnet import recordio

    def write(samples: Samples, destination: Path) -> None:
        destination.mkdir()
        for shard, inside in in_shards(samples):
            name = f"{destination}/shard-{shard:06}"
            with closing(recordio.MXIndexedRecordIO(f"{name}.idx", f"{name}.rec", "w")) as records:
                for _, number, _, label, image in inside:
                    records.write_idx(number, recordio.pack(recordio.IRHeader(0, label, number, 0), image))

    return write


def sync(folder: Path) -> None:
    """Until the disk has it all."""
    for parent, _, files in os.walk(folder):
        for name in [parent, *(os.path.join(parent, file) for file in files)]:
            number = os.open(name, os.O_RDONLY)
            os.fsync(number)
            os.close(number)


def main() -> None:
    how, source, destination = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    write = globals()[f"with_{how.replace('-', '_')}"]()

    start, start_cpu = time.perf_counter(), time.process_time()
    write(shuffled(source), destination)
    sync(destination)
    print(time.perf_counter() - start, time.process_time() - start_cpu)


if __name__ == "__main__":
    main()
