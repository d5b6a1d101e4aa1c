"""Reads shards of TFRecord, RecordIO or MDS and compares every sample with the packed ImageFolder.

    read_records.py tfrecord|tensorflow|dali_tfrecord|recordio|mxnet|dali_recordio|mds|streaming SOURCE FOLDER

TFRecord: read by TensorFlow and by the `tfrecord` package, which checks no CRC; this script checks CRCs with `crc32c`.
RecordIO: read by MXNet, and by code below because MXNet does not install everywhere. NVIDIA DALI reads both formats. MDS:
read by mosaicml-streaming, which needs about 6 GB, and by code below, written after version 0.13.0. The expected samples
come from the source folder alone. Prints the number of samples. At the first error, prints one line and exits with 1.
"""

import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import Iterator

IMAGES = {".jpg", ".jpeg", ".png", ".webp"}
MAGIC = 0xCED7230A

Sample = tuple[int, bytes, str | None]


def with_tfrecord(folder: Path) -> Iterator[Sample]:
    """Label, image and file name, as the tfrecord package gives them, by its index."""
    import crc32c
    from tfrecord.reader import tfrecord_loader

    def masked(data: bytes) -> int:
        crc = crc32c.crc32c(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    shards = sorted(path for path in folder.iterdir() if "-of-" in path.name and path.suffix == "")
    description = {
        "image/encoded": "byte", "image/class/label": "int", "image/filename": "byte", "image/class/text": "byte",
        "image/height": "int", "image/width": "int", "image/format": "byte",
    }
    for shard in shards:
        content, at, offsets = shard.read_bytes(), 0, []
        while at < len(content):
            length, length_crc = struct.unpack_from("<QI", content, at)
            (data_crc,) = struct.unpack_from("<I", content, at + 12 + length)
            assert length_crc == masked(content[at : at + 8]), f"{shard}: length CRC at {at}"
            assert data_crc == masked(content[at + 12 : at + 12 + length]), f"{shard}: data CRC at {at}"
            offsets.append(f"{at} {length + 16}")
            at += length + 16
        index = Path(f"{shard}.idx")
        assert index.read_text().split("\n")[:-1] == offsets, f"{index}: not where the records are"
        for record in tfrecord_loader(str(shard), str(index), description):
            class_name, name = bytes(record["image/class/text"]).decode(), bytes(record["image/filename"]).decode()
            image = bytes(record["image/encoded"])
            check_header(image, int(record["image/width"][0]), int(record["image/height"][0]))
            yield int(record["image/class/label"][0]), image, f"{class_name}/{name}"


def with_tensorflow(folder: Path) -> Iterator[Sample]:
    """Label, image and file name, as TensorFlow's parser of single examples gives them."""
    import os

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    texts = ["image/encoded", "image/class/text", "image/filename", "image/format"]
    numbers = ["image/class/label", "image/height", "image/width"]
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in texts}
    features |= {name: tf.io.FixedLenFeature([], tf.int64) for name in numbers}
    shards = sorted(str(path) for path in folder.iterdir() if "-of-" in path.name and path.suffix == "")
    for record in tf.data.TFRecordDataset(shards):
        example = {name: value.numpy() for name, value in tf.io.parse_single_example(record, features).items()}
        image = example["image/encoded"]
        kind = {b"\xff\xd8": b"JPEG", b"\x89P": b"PNG"}[image[:2]]
        assert example["image/format"] == kind, f"{example['image/format']} for {kind}"
        shape = tuple(tf.io.decode_image(image).shape[:2])
        assert shape == (example["image/height"], example["image/width"]), f"{shape} for {example['image/filename']}"
        yield int(example["image/class/label"]), image, f"{example['image/class/text'].decode()}/{example['image/filename'].decode()}"


def with_mxnet(folder: Path) -> Iterator[Sample]:
    """Label and image, as MXNet reads them by the .idx of each shard."""
    import mxnet

    lines = next(folder.glob("*.lst")).read_text().splitlines()
    paths = {int(line.split("\t")[0]): line.split("\t")[2] for line in lines}
    for shard in sorted(folder.glob("*.rec")):
        reader = mxnet.recordio.MXIndexedRecordIO(str(shard.with_suffix(".idx")), str(shard), "r")
        for key in reader.keys:
            header, image = mxnet.recordio.unpack(reader.read_idx(key))
            assert header.id == key
            yield int(header.label), image, paths[key]


def check_header(image: bytes, width: int, height: int) -> None:
    """Fails unless Pillow finds the same width and height."""
    import io

    from PIL import Image

    found = Image.open(io.BytesIO(image)).size
    assert found == (width, height), f"{width} × {height}, Pillow says {found}"


def parts(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of each RecordIO record, its parts put together."""
    at = 0
    while at < len(content):
        start, payload = at, b""
        while True:
            magic, lrec = struct.unpack_from("<II", content, at)
            assert magic == MAGIC, f"no magic at {at}"
            flag, length = lrec >> 29, lrec & (1 << 29) - 1
            payload += content[at + 8 : at + 8 + length]
            at += 8 + (length + 3 & ~3)
            if flag in (0, 3):
                break
            payload += struct.pack("<I", MAGIC)
        yield start, payload


def with_recordio(folder: Path) -> Iterator[Sample]:
    """Label and image of each record, in the order of the .idx beside each shard."""
    listed = {}
    for line in next(folder.glob("*.lst")).read_text().splitlines():
        number, label, path = line.split("\t")
        listed[int(number)] = (float(label), path)
    for shard in sorted(folder.glob("*.rec")):
        records = dict(parts(shard.read_bytes()))
        index = [tuple(map(int, line.split("\t"))) for line in shard.with_suffix(".idx").read_text().splitlines()]
        assert [offset for _, offset in index] == list(records), f"{shard}: the .idx is not where the records are"
        for key, offset in index:
            flag, label, number, second = struct.unpack_from("<IfQQ", records[offset])
            assert (flag, number, second) == (0, key, 0), f"{shard}: header of record {key}"
            assert listed[key][0] == label, f"{shard}: the .lst has another label for {key}"
            yield int(label), records[offset][24:], listed[key][1]


def with_mds(folder: Path) -> Iterator[Sample]:
    """Label, image and file name of each sample, by index.json alone, as streaming does."""
    index = json.loads((folder / "index.json").read_text())
    assert index["version"] == 2
    for shard in index["shards"]:
        raw = shard["raw_data"]
        content = (folder / raw["basename"]).read_bytes()
        assert len(content) == raw["bytes"]
        offsets = struct.unpack_from(f"<{shard['samples'] + 1}I", content, 4)
        columns = list(zip(shard["column_names"], shard["column_encodings"], shard["column_sizes"]))
        for begin, end in zip(offsets, offsets[1:]):
            sample, at, sizes, values = content[begin:end], 0, [], {}
            for _, _, size in columns:
                if size is None:
                    (size,) = struct.unpack_from("<I", sample, at)
                    at += 4
                sizes.append(size)
            for (name, encoding, _), size in zip(columns, sizes):
                values[name] = struct.unpack("<q", sample[at : at + size])[0] if encoding == "int" else sample[at : at + size]
                at += size
            assert at == len(sample), f"{raw['basename']}: a sample of {len(sample)} bytes, its columns take {at}"
            yield values["label"], values["image"], values["filename"].decode()


def with_streaming(folder: Path) -> Iterator[Sample]:
    """Label, image and file name from StreamingDataset. Reads a copy with hash checks, and uncompressed shards also in
    place; streaming would decompress shards into the same folder."""
    from streaming import StreamingDataset

    def read(**options) -> list[Sample]:
        dataset = StreamingDataset(batch_size=1, shuffle=False, **options)
        # Pillow has opened but not decoded the image, so `fp` is the stored file.
        return [(sample["label"], sample["image"].fp.getvalue(), sample["filename"]) for sample in dataset]

    with tempfile.TemporaryDirectory() as local:
        samples = read(remote=str(folder), local=local, validate_hash="xxh64")
    if not list(folder.glob("*.zstd")):
        assert samples == read(local=str(folder)), "copied shards have other samples than those in their place"
    yield from samples


def run_dali(read) -> Iterator[list]:
    """Outputs of the pipeline that `read` defines, one sample at a time, on the CPU."""
    from nvidia.dali import pipeline_def

    pipeline = pipeline_def(read, batch_size=1, num_threads=1, device_id=None)()
    pipeline.build()
    for _ in range(pipeline.reader_meta("reader")["epoch_size"]):
        yield [output.at(0) for output in pipeline.run()]


def with_dali_tfrecord(folder: Path) -> Iterator[Sample]:
    """Label, image and file name, as DALI reads them by the .idx of each shard."""
    from nvidia.dali import fn, tfrecord

    shards = sorted(str(path) for path in folder.iterdir() if "-of-" in path.name and path.suffix == "")
    names = ["image/encoded", "image/class/text", "image/filename"]
    features = {name: tfrecord.FixedLenFeature((), tfrecord.string, "") for name in names}
    features["image/class/label"] = tfrecord.FixedLenFeature([1], tfrecord.int64, -1)

    def read():
        index_path = [f"{shard}.idx" for shard in shards]
        found = fn.readers.tfrecord(path=shards, index_path=index_path, features=features, name="reader")
        return tuple(found[name] for name in ["image/class/label", *names])

    for label, image, class_name, name in run_dali(read):
        yield int(label[0]), image.tobytes(), f"{class_name.tobytes().decode()}/{name.tobytes().decode()}"


def with_dali_recordio(folder: Path) -> Iterator[Sample]:
    """Label and image, as DALI reads them by the one index of all shards; the .lst has their paths in that order."""
    from nvidia.dali import fn

    index = str(next(folder.glob("*-dali.idx")))

    def read():
        image, label = fn.readers.mxnet(
            path=sorted(map(str, folder.glob("*.rec"))), index_path=[index], name="reader"
        )
        return label, image

    paths = [line.split("\t")[2] for line in next(folder.glob("*.lst")).read_text().splitlines()]
    for path, (label, image) in zip(paths, run_dali(read), strict=True):
        yield int(label[0]), image.tobytes(), path


def main() -> None:
    how, source, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    classes = sorted(path.name for path in source.iterdir() if path.is_dir())
    files = (path for path in source.rglob("*") if path.suffix.lower() in IMAGES)
    left = {str(path.relative_to(source)): path for path in files}
    count = 0
    for label, image, name in globals()[f"with_{how}"](folder):
        path = left.pop(name, None)
        if path is None or image != path.read_bytes() or classes[label] != name.split("/")[0]:
            sys.exit(f"sample {count} ({name}): not in the source, twice, or with other bytes or another label")
        count += 1
    if left:
        sys.exit(f"{len(left)} images are missing: {sorted(left)[:3]}")
    print(count)


main()
