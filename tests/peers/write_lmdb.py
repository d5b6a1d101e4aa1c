"""Writes an ImageFolder tree as LMDBs, each as this or that script of the field would: write_lmdb.py SRC DST.

Folder or file DST/NAME for each way. Classes are numbered as torchvision's ImageFolder does.
"""

import os
import pickle
import sys

import lmdb
import msgpack
import numpy as np


def samples(source):
    """Path, label and bytes of every image, in canonical order."""
    classes = sorted(os.listdir(source))
    for label, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(source, name))):
            for file in sorted(files):
                path = os.path.join(folder, file)
                with open(path, "rb") as image:
                    yield os.path.relpath(path, source), label, image.read()


def write(path, pairs, subdir=True, **options):
    """Writes pairs in transactions of a few, so that pages are freed and used again."""
    environment = lmdb.open(path, map_size=1 << 28, subdir=subdir, **options)
    pairs = list(pairs)
    for start in range(0, len(pairs), 10):
        with environment.begin(write=True) as transaction:
            for key, value in pairs[start : start + 10]:
                transaction.put(key, value)
    environment.close()


def varint(number):
    """A varint of Protocol Buffers."""
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def datum(image, label):
    """Caffe's Datum with an encoded image: 4 data, 5 label, 7 encoded."""
    return b"\x22" + varint(len(image)) + image + b"\x28" + varint(label) + b"\x38\x01"


class Evil:
    """Asks whoever unpickles it to run a command."""

    def __init__(self, out):
        self.out = out

    def __reduce__(self):
        return os.system, (f"touch {self.out}/ran",)


def write_pages(path, expected):
    """Trees of several levels, values in pages of their own, duplicates and freed pages; and what liblmdb reads of them."""
    environment = lmdb.open(path, map_size=1 << 28, max_dbs=4)
    kinds = {"small": {}, "values": {}, "duplicates": {"dupsort": True}, "fixed": {"dupsort": True, "dupfixed": True}}
    databases = {name: environment.open_db(name.encode(), **options) for name, options in kinds.items()}
    sizes = [0, 1, 2000, *range(2036, 2044), *range(4076, 4084), 5000, 1 << 20]
    with environment.begin(write=True) as transaction:
        for n in range(20000):
            transaction.put(f"{n * 7919 % 20011}".encode(), f"v{n}".encode(), db=databases["small"])
        for n in sizes:
            transaction.put(f"value-{n}".encode(), bytes(i % 251 for i in range(n)), db=databases["values"])
        for n in range(6000):
            transaction.put(f"key-{n % 7}".encode(), f"{n:06d}".encode() * (1 + n % 5), db=databases["duplicates"])
            transaction.put(f"key-{n % 7}".encode(), n.to_bytes(8, "big"), db=databases["fixed"])
    for start in range(0, 20000, 4000):
        with environment.begin(write=True) as transaction:
            for n in range(start, start + 4000, 3):
                transaction.delete(f"{n * 7919 % 20011}".encode(), db=databases["small"])
            transaction.delete(b"key-3", f"{start + 3 - start % 7:06d}".encode(), db=databases["duplicates"])
    with environment.begin() as transaction:
        for name, database in databases.items():
            with open(f"{expected}/pages-{name}", "wb") as out:
                for key, value in transaction.cursor(db=database):
                    out.write(len(key).to_bytes(8, "little") + key + len(value).to_bytes(8, "little") + value)
    environment.close()


def main(source, out):
    """Writes all of them."""
    os.makedirs(out)
    images = list(samples(source))
    place = lambda name: os.path.join(out, name)
    number = lambda n: str(n).encode()
    meta = [(b"__len__", pickle.dumps(len(images))), (b"__keys__", pickle.dumps([number(n) for n in range(len(images))]))]
    write(place("caffe"), ((f"{n:08d}_{p}".encode(), datum(b, l)) for n, (p, l, b) in enumerate(images)))
    for protocol in range(2, 6):
        pairs = [(number(n), pickle.dumps((b, l), protocol)) for n, (_, l, b) in enumerate(images)]
        write(place(f"folder2lmdb-{protocol}.lmdb"), pairs + meta, subdir=False)
    numpy = lambda b, l: pickle.dumps((np.frombuffer(b, np.uint8), np.int64(l)), 4)
    write(place("numpy.lmdb"), ((number(n), numpy(b, l)) for n, (_, l, b) in enumerate(images)), subdir=False)
    record = lambda p, l, b: pickle.dumps({"image": b, "label": l, "path": p})
    write(place("dict"), ((f"{n:06d}".encode(), record(*one)) for n, one in enumerate(images)))
    packed = [(f"{n:08d}".encode(), msgpack.packb([b, l], use_bin_type=True)) for n, (_, l, b) in enumerate(images)]
    write(place("tensorpack"), packed + [(b"__keys__", msgpack.packb([key for key, _ in packed]))])
    chunks = [images[start : start + 7] for start in range(0, len(images), 7)]
    values = [pickle.dumps([(b, l) for _, l, b in chunk]) for chunk in chunks]
    write(place("chunked.lmdb"), ((number(j), value) for j, value in enumerate(values)), subdir=False)
    write(place("paths"), ((p.encode(), b) for p, _, b in images))
    ocr = [(f"image-{n:09d}".encode(), b) for n, (_, _, b) in enumerate(images, 1)]
    ocr += [(f"label-{n:09d}".encode(), str(l).encode()) for n, (_, l, _) in enumerate(images, 1)]
    write(place("ocr"), ocr + [(b"num-samples", str(len(images)).encode())])
    os.makedirs(place("lsun"))
    for name in sorted({p.split("/")[0] for p, _, _ in images}):
        own = [(f"{n:040x}".encode(), b) for n, (p, _, b) in enumerate(images) if p.startswith(name + "/")]
        write(place(f"lsun/{name}_train_lmdb"), own)
    pixels = lambda n: np.random.default_rng(n).integers(0, 256, (12 + n, 16, 3), np.uint8)
    raw = lambda a, l: b"\x08\x03\x10" + varint(a.shape[1]) + b"\x18" + varint(a.shape[2]) + b"\x22" + varint(a.size) + a.tobytes() + b"\x28" + varint(l)
    arrays = [pixels(n) for n in range(6)]
    write(place("raw-caffe"), ((f"{n:08d}".encode(), raw(a.transpose(2, 0, 1), n % 3)) for n, a in enumerate(arrays)))
    write(place("raw-numpy"), ((number(n), pickle.dumps((a, n % 3))) for n, a in enumerate(arrays)))
    os.makedirs(place("expected"))
    write_pages(place("pages"), place("expected"))
    for n, a in enumerate(arrays):
        np.save(place(f"expected/raw-numpy-{n}.npy"), a)
        np.save(place(f"expected/raw-caffe-{n}.npy"), np.ascontiguousarray(a.transpose(2, 0, 1)))
    evil = [(number(n), pickle.dumps((b, l))) for n, (_, l, b) in enumerate(images)] + [(b"evil", pickle.dumps(Evil(out)))]
    write(place("evil.lmdb"), evil, subdir=False)
    write(place("strange"), ((number(n), b"\x7fnothing that is known " + number(n)) for n in range(5)))
    environment = lmdb.open(place("named"), map_size=1 << 28, max_dbs=2)
    databases = {name: environment.open_db(name.encode()) for name in ("image", "label")}
    with environment.begin(write=True) as transaction:
        for n, (_, l, b) in enumerate(images):
            transaction.put(number(n), b, db=databases["image"])
            transaction.put(number(n), str(l).encode(), db=databases["label"])
    environment.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
