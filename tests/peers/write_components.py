"""Writes samples with captions, numbers and lists, as parquet, TFRecord, HDF5 and LMDB; reads shards with webdataset.

write_components.py write OUT: OUT/x.parquet, OUT/x.tfrecord, OUT/x.h5, OUT/pickle.lmdb, OUT/msgpack.lmdb, and
OUT/expected.json: for each file, by the length of the image, the components in base64. write_components.py read TAR
prints the samples of a shard in the same way.
"""

import base64
import json
import sys

ROWS = 5


def image(number):
    start = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0"
    return start + bytes([number]) * (5000 + number - len(start) - 2) + b"\xff\xd9"


def encoded(components):
    return {name: base64.b64encode(value).decode() for name, value in components.items() if value is not None}


def single(number):
    """The fewest digits that identify a 32-bit float."""
    import numpy as np

    return repr(float(str(np.float32(number)))).encode()


def parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = range(ROWS)
    captions = [None if n == 1 else f"a caption, naïve {n}\n" for n in rows]
    scores = [0.1 * n for n in rows]
    boxes = [None if n == 3 else [[0.5, n], [], None][: n + 1] for n in rows]
    meta = [None if n == 2 else {"w": 2**60 + n, "tags": ["é\"", None], "ok": n % 2 == 0} for n in rows]
    kinds = [[{"id": k, "name": str(k)} for k in range(n)] for n in rows]
    masks = [{"bytes": b"\x89PNG\xff%d" % n, "path": f"m{n}.png" if n else None} for n in rows]
    columns = {
        "image": pa.array(
            [{"bytes": image(n), "path": f"p/{n}.jpg"} for n in rows],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        "label": pa.array([n % 2 for n in rows], pa.int64()),
        "caption": pa.array(captions, pa.string()),
        "Clip-Score": pa.array(scores, pa.float32()),
        "similarity": pa.array(scores, pa.float64()),
        "width": pa.array([2**63 + n for n in rows], pa.uint64()),
        "depth": pa.array([-n for n in rows], pa.int16()),
        "nsfw": pa.array([n == 1 for n in rows], pa.bool_()),
        "thumb": pa.array([b"\0\xff" * n for n in rows], pa.binary()),
        "boxes": pa.array(boxes, pa.list_(pa.list_(pa.float64()))),
        "meta": pa.array(meta, pa.struct([("w", pa.int64()), ("tags", pa.list_(pa.string())), ("ok", pa.bool_())])),
        "kinds": pa.array(kinds, pa.list_(pa.struct([("id", pa.int32()), ("name", pa.string())]))),
        "mask": pa.array(masks, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "day": pa.array(list(rows), pa.date32()),
        "blobs": pa.array([[b"\xff"] for _ in rows], pa.list_(pa.binary())),
        "__index_level_0__": pa.array(list(rows), pa.int64()),
    }
    pq.write_table(pa.table(columns), path, row_group_size=2)

    def text(value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def of(n):
        return {
            "caption": None if captions[n] is None else captions[n].encode(),
            "clip_score": single(scores[n]),
            "similarity": repr(scores[n]).encode(),
            "width": str(2**63 + n).encode(),
            "depth": str(-n).encode(),
            "nsfw": text(n == 1),
            "thumb": b"\0\xff" * n,
            "boxes": None if boxes[n] is None else text([b if b is None else [float(v) for v in b] for b in boxes[n]]),
            "meta": None if meta[n] is None else text(meta[n]),
            "kinds": text(kinds[n]),
            "mask": masks[n]["bytes"],
            "mask.path": masks[n]["path"] and masks[n]["path"].encode(),
        }

    return of


def npy(array):
    import io

    import numpy as np

    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def records(path):
    import numpy as np
    from tfrecord.writer import TFRecordWriter

    writer = TFRecordWriter(path)
    captions = [[b"one"], [b"one", "zwei ä".encode()], [b"\xff", b"no text"], [b"x"] * 3, [b"last"]]
    boxes = [[0.1 * k for k in range(n)] for n in (1, 2, 3, 0, 1)]
    for n in range(ROWS):
        sample = {
            "image/encoded": (image(n), "byte"),
            "image/class/label": (n % 2, "int"),
            "image/height": (2, "int"),
            "image/source_id": (-(2**62) - n, "int"),
            "image/object/bbox/xmin": (boxes[n], "float"),
            "score": (0.1 * n, "float"),
            "captions": (captions[n], "byte"),
            "ids": ([n, n + 1], "int"),
        }
        writer.write({name: value for name, value in sample.items() if value[0] != []})
    writer.close()

    def of(n):
        said = [b.decode() if n != 2 else None for b in captions[n]]
        return {
            "image_source_id": str(-(2**62) - n).encode(),
            "image_object_bbox_xmin.npy": npy(np.array(boxes[n], np.float32)) if boxes[n] else None,
            "score": single(0.1 * n),
            "captions": None
            if n == 2
            else captions[n][0]
            if len(said) == 1
            else json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(),
            "ids.npy": npy(np.array([n, n + 1])),
        }

    return of


def hdf5(path):
    import h5py
    import numpy as np

    rows = range(ROWS)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("images", (ROWS,), h5py.vlen_dtype(np.uint8))
        for n in rows:
            data[n] = np.frombuffer(image(n), np.uint8)
        file["labels"] = [n % 2 for n in rows]
        file["caption"] = [f"caption ü {n} " for n in rows]
        file["fixed"] = np.array([b"ab" * n for n in rows], dtype="S9")
        file["width"] = np.array([2**64 - 1 - n for n in rows], "<u8")
        file["depth"] = np.array([-n for n in rows], ">i2")
        file["meta/score"] = np.array([0.1 * n for n in rows], ">f4")
        file["box"] = np.array([[[0.1, n], [2, 3]] for n in rows], "f8")
        file["mask"] = np.array([[[n, 1, 2], [3, 4, 5]] for n in rows], np.uint8)
        tags = file.create_dataset("tags", (ROWS, 2), h5py.string_dtype())
        for n in rows:
            tags[n] = [f"t{n}", '"é']
        file["mean"] = np.zeros((3, 4), np.float32)
        file["huge"] = np.zeros((ROWS, 140_000), "S1")
        file["far"] = np.zeros((ROWS, 480, 640), np.float32)
        file["points"] = np.zeros(ROWS, np.dtype([("x", "f4"), ("y", "f4")]))
        wide = file.create_dataset("wide", (ROWS, 4), "f8", chunks=(1 << 20, 4), maxshape=(None, 4), compression="gzip")
        wide[:] = 1

    def of(n):
        return {
            "caption": f"caption ü {n} ".encode(),
            "fixed": b"ab" * n,
            "width": str(2**64 - 1 - n).encode(),
            "depth": str(-n).encode(),
            "score": single(0.1 * n),
            "box.npy": npy(np.array([[0.1, n], [2, 3]])),
            "far.npy": npy(np.zeros((480, 640), np.float32)),
            "mask.npy": npy(np.array([[n, 1, 2], [3, 4, 5]], np.uint8)),
            "tags": f'["t{n}","\\"é"]'.encode(),
        }

    return of


def databases(coding):
    def write(path):
        import pickle

        import lmdb
        import msgpack

        def value(n):
            caption = None if n == 1 else f"a caption, naïve {n}"
            fields = {"image": image(n), "label": n % 2, "caption": caption, "Raw Tag": b"\0\xff%d" % n, "width": 3 + n}
            if coding == "msgpack":
                return msgpack.packb(fields)
            return pickle.dumps(fields if n != 4 else (image(n), n % 2, "unnamed"), protocol=3 + n % 3)

        with lmdb.open(path, subdir=False, map_size=1 << 24) as environment:
            with environment.begin(write=True) as entries:
                for n in range(ROWS):
                    entries.put(b"%08d" % n, value(n))

        def of(n):
            if coding == "pickle" and n == 4:
                return {"x2": b"unnamed"}
            caption = None if n == 1 else f"a caption, naïve {n}".encode()
            return {"caption": caption, "raw_tag": b"\0\xff%d" % n, "width.json": str(3 + n).encode()}

        return of

    return write


def write(out):
    expected = {}
    writers = {"x.parquet": parquet, "x.tfrecord": records, "x.h5": hdf5}
    writers |= {f"{coding}.lmdb": databases(coding) for coding in ("pickle", "msgpack")}
    for name, writer in writers.items():
        of = writer(f"{out}/{name}")
        expected[name] = {str(len(image(n))): encoded(of(n)) for n in range(ROWS)}
    with open(f"{out}/expected.json", "w") as file:
        json.dump(expected, file)


def read(tar):
    import webdataset as wds

    samples = {}
    for sample in wds.WebDataset(tar, shardshuffle=False):
        components = {name: value for name, value in sample.items() if not name.startswith("__")}
        components.pop("cls")
        length = len(components.pop("jpg"))
        samples[str(length)] = encoded(components)
    json.dump(samples, sys.stdout)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
