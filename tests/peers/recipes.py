"""Runs a line that `shardpack pack` prints for a reader, and prints the number of samples.

    recipes.py READER LINE

A line for MXNet, TensorFlow or streaming runs in that library if it is installed. Otherwise a few lines of code replace the library and
open the same files. Every machine therefore tests that the line names all files.
"""

import glob
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Iterable

MAGIC = b"\x0a\x23\xd7\xce"


def count_webdataset(line: str) -> int:
    """Samples of a webdataset."""
    import webdataset as wds

    return sum("cls" in sample for sample in eval(line, {"wds": wds}))


def count_tensorflow(line: str) -> int:
    """Records of a tf.data dataset. Without TensorFlow, the package tfrecord reads them."""
    if find_spec("tensorflow"):
        import tensorflow as tf
    else:
        from tfrecord.reader import tfrecord_loader

        def records(files: Iterable[str]) -> Iterable[object]:
            return (record for file in files for record in tfrecord_loader(file, None, None))

        io, data = SimpleNamespace(gfile=SimpleNamespace(glob=glob.glob)), SimpleNamespace(TFRecordDataset=records)
        tf = SimpleNamespace(io=io, data=data)
    return sum(1 for _ in eval(line, {"tf": tf}))


def count_mxnet(line: str) -> int:
    """Images of an MXNet iterator; without MXNet, the records of its files."""
    if find_spec("mxnet"):
        import mxnet as mx

        # MXNet refuses a batch larger than the dataset.
        batches = eval(line.replace("batch_size=256", "batch_size=4"), {"mx": mx})
        return sum(batch.data[0].shape[0] - batch.pad for batch in batches)

    def iterator(path_imgrec: str, path_imgidx: str | None = None, **_: object) -> int:
        files = path_imgrec.split(";")
        assert path_imgidx is None or len(files) == 1, "MXNet takes an index for one file only"
        # Counts record headers: the photographs contain no magic word.
        return sum(Path(file).read_bytes().count(MAGIC) for file in files)

    return eval(line, {"mx": SimpleNamespace(io=SimpleNamespace(ImageRecordIter=iterator))})


def count_streaming(line: str) -> int:
    """Samples of a StreamingDataset; without streaming, the samples in index.json."""
    if find_spec("streaming"):
        from streaming import StreamingDataset

        return sum(sample["image"] is not None for sample in eval(line, {"StreamingDataset": StreamingDataset}))

    def dataset(local: str, **_: object) -> int:
        index = json.loads((Path(local) / "index.json").read_text())
        return sum(shard["samples"] for shard in index["shards"])

    return eval(line, {"StreamingDataset": dataset})


def count_dali(line: str) -> int:
    """Samples of a reader of NVIDIA DALI."""
    from nvidia.dali import fn, pipeline_def
    from nvidia.dali import tfrecord as tfrec

    def read():
        named = line.removesuffix(")") + ', name="reader")'
        found = eval(named, {"fn": fn, "tfrec": tfrec, "glob": glob})
        return tuple(found.values()) if isinstance(found, dict) else tuple(found)

    pipeline = pipeline_def(read, batch_size=1, num_threads=1, device_id=None)()
    pipeline.build()
    size = pipeline.reader_meta("reader")["epoch_size"]
    for _ in range(size):
        pipeline.run()
    return size


COUNTS = {
    "webdataset": count_webdataset, "tf.data": count_tensorflow, "MXNet": count_mxnet, "streaming": count_streaming,
    "DALI": count_dali,
}


def main(reader: str, line: str) -> None:
    print(COUNTS[reader](line))


main(*sys.argv[1:])
