"""Writes an ImageFolder tree as LMDBs in the layouts of common scripts: write_lmdb.py SRC DST [N WAY...].

Folder or file DST/NAME for each layout, and DST/NAME.list with `SHA-256 label` of every image, -1 for no label. With N, writes N images and
repeats the images of SRC under other keys. Classes are numbered like in torchvision's ImageFolder.
"""

import hashlib
import itertools
import os
import pickle
import sys

import lmdb
import msgpack
import numpy as np
import pyarrow as pa


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
    """Writes pairs in small transactions, so that LMDB frees and reuses pages."""
    environment = lmdb.open(path, map_size=1 << 35, subdir=subdir, sync=False, **options)
    pairs = iter(pairs)
    while some := list(itertools.islice(pairs, 10)):
        with environment.begin(write=True) as transaction:
            for key, value in some:
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
    """An object whose unpickling runs a command."""

    def __init__(self, out):
        self.out = out

    def __reduce__(self):
        return os.system, (f"touch {self.out}/ran",)


def write_pages(path, expected):
    """Writes trees of several levels, overflow pages, duplicates and freed pages, and the entries that liblmdb reads."""
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


def arrow(image, label):
    """(image, label) as `pyarrow.serialize` wrote it up to pyarrow 14: four counts, then a stream of one batch."""
    values = pa.UnionArray.from_dense(
        pa.array([1, 0], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([label]), pa.array([image])], ["2", "4"]
    )
    tuples = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), values)
    value = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [tuples], ["12"])
    batch = pa.record_batch([value], names=["list"])
    return bytes(16) + batch.schema.serialize().to_pybytes() + batch.serialize().to_pybytes()


def objects(items):
    """An array of references."""
    out = np.empty(len(items), object)
    out[:] = items
    return out


def number(n):
    """A key."""
    return str(n).encode()


class Ways:
    """The layouts for `images`, which are path, label and source file; `read` returns the bytes of a file."""

    def __init__(self, source, out, count):
        self.source, self.out = source, out
        found = [(path, label) for path, label, _ in samples(source)]
        count = count or len(found)
        # Another name for every repetition.
        again = lambda path, times: path if times == 0 else "%s-%d%s" % (*os.path.splitext(path)[:1], times, os.path.splitext(path)[1])
        self.images = [(again(found[n % len(found)][0], n // len(found)), found[n % len(found)][1], found[n % len(found)][0]) for n in range(count)]

    def read(self, file):
        with open(os.path.join(self.source, file), "rb") as image:
            return image.read()

    def all(self):
        """Number, path, label, bytes."""
        for n, (path, label, file) in enumerate(self.images):
            yield n, path, label, self.read(file)

    def list(self, name, has_labels=True):
        """Writes DST/NAME.list."""
        with open(os.path.join(self.out, name + ".list"), "w") as out:
            for _, _, label, image in self.all():
                out.write(f"{hashlib.sha256(image).hexdigest()} {label if has_labels else -1}\n")

    def write(self, name, pairs, **options):
        write(os.path.join(self.out, name), pairs, subdir=not name.endswith(".lmdb"), **options)

    def meta(self, dump):
        keys = [number(n) for n in range(len(self.images))]
        return [(b"__len__", dump(len(keys))), (b"__keys__", dump(keys))]

    def caffe(self, name):
        self.write(name, ((f"{n:08d}_{p}".encode(), datum(b, l)) for n, p, l, b in self.all()))

    def folder2lmdb(self, name):
        protocol = int(name[len("folder2lmdb-")])
        dump = lambda value: pickle.dumps(value, protocol)
        pairs = ((number(n), dump((b, l))) for n, _, l, b in self.all())
        self.write(name, itertools.chain(pairs, self.meta(dump)))

    def numpy(self, name):
        dump = lambda b, l: pickle.dumps((np.frombuffer(b, np.uint8), np.int64(l)), 4)
        self.write(name, ((number(n), dump(b, l)) for n, _, l, b in self.all()))

    def dict(self, name):
        self.write(name, ((f"{n:06d}".encode(), pickle.dumps({"image": b, "label": l, "path": p})) for n, p, l, b in self.all()))

    def tensorpack(self, name):
        keys = [f"{n:08d}".encode() for n in range(len(self.images))]
        pairs = ((keys[n], msgpack.packb([b, l], use_bin_type=True)) for n, _, l, b in self.all())
        self.write(name, itertools.chain(pairs, [(b"__keys__", msgpack.packb(keys))]))

    def pyarrow(self, name):
        self.write(name, ((number(n), arrow(b, l)) for n, _, l, b in self.all()))

    def chunks(self, name, value):
        images = self.all()
        chunks = iter(lambda: list(itertools.islice(images, 7)), [])
        self.write(name, ((number(j), pickle.dumps(value(chunk))) for j, chunk in enumerate(chunks)))

    def chunked(self, name):
        self.chunks(name, lambda chunk: [(b, l) for _, _, l, b in chunk])

    def columns(self, name):
        self.chunks(name, lambda chunk: {"images": [b for *_, b in chunk], "labels": [l for _, _, l, _ in chunk]})

    def objects(self, name):
        self.chunks(name, lambda chunk: (objects([b for *_, b in chunk]), np.array([l for _, _, l, _ in chunk])))

    def pairs(self, name):
        self.chunks(name, lambda chunk: np.array([(b, l) for _, _, l, b in chunk], object))

    def bytes(self, name):
        self.chunks(name, lambda chunk: [b for *_, b in chunk])

    def plain(self, name):
        self.write(name, ((number(n), b) for n, _, _, b in self.all()))

    def paths(self, name):
        self.write(name, ((p.encode(), b) for _, p, _, b in self.all()))

    def ocr(self, name):
        pairs = (pair for n, _, l, b in self.all() for pair in ((f"image-{n + 1:09d}".encode(), b), (f"label-{n + 1:09d}".encode(), number(l))))
        self.write(name, itertools.chain(pairs, [(b"num-samples", number(len(self.images)))]))

    def lsun(self, name):
        os.makedirs(os.path.join(self.out, name))
        for folder in sorted({p.split("/")[0] for p, _, _ in self.images}):
            own = [(n, file) for n, (path, _, file) in enumerate(self.images) if path.startswith(folder + "/")]
            own = ((f"{n:040x}".encode(), self.read(file)) for n, file in own)
            self.write(f"{name}/{folder}_train_lmdb", own)

    def basicsr(self, name):
        self.write(name, ((os.path.splitext(p)[0].encode(), b) for _, p, _, b in self.all()))
        with open(os.path.join(self.out, name, "meta_info.txt"), "w") as out:
            out.writelines(f"{p} (480,480,3) 1\n" for p, _, _ in self.images)

    def named(self, name):
        environment = lmdb.open(os.path.join(self.out, name), map_size=1 << 35, max_dbs=2, sync=False)
        databases = {name: environment.open_db(name.encode()) for name in ("image", "label")}
        with environment.begin(write=True) as transaction:
            for n, _, l, b in self.all():
                transaction.put(number(n), b, db=databases["image"])
                transaction.put(number(n), number(l), db=databases["label"])
        environment.close()


WAYS = {
    "caffe": Ways.caffe,
    **{f"folder2lmdb-{protocol}.lmdb": Ways.folder2lmdb for protocol in range(2, 6)},
    "numpy.lmdb": Ways.numpy,
    "dict": Ways.dict,
    "tensorpack": Ways.tensorpack,
    "pyarrow.lmdb": Ways.pyarrow,
    "chunked.lmdb": Ways.chunked,
    "columns.lmdb": Ways.columns,
    "objects.lmdb": Ways.objects,
    "pairs.lmdb": Ways.pairs,
    "bytes.lmdb": Ways.bytes,
    "plain": Ways.plain,
    "paths": Ways.paths,
    "ocr": Ways.ocr,
    "lsun": Ways.lsun,
    "basicsr": Ways.basicsr,
    "named": Ways.named,
}
"""Layouts without labels."""
UNLABELLED = ["bytes.lmdb", "plain"]


def write_raw(out):
    """Writes arrays of pixels, one or many per value, and the same arrays as `.npy` files."""
    place = lambda name: os.path.join(out, name)
    pixels = lambda n, height: np.random.default_rng(n).integers(0, 256, (height, 16, 3), np.uint8)
    raw = lambda a, l: b"\x08\x03\x10" + varint(a.shape[1]) + b"\x18" + varint(a.shape[2]) + b"\x22" + varint(a.size) + a.tobytes() + b"\x28" + varint(l)
    arrays = [pixels(n, 12 + n) for n in range(6)]
    even = [pixels(n, 12) for n in range(6)]
    first = lambda a: np.ascontiguousarray(a.transpose(2, 0, 1))
    os.makedirs(place("expected"))

    def save(name, pairs, arrays):
        write(place(name), pairs)
        for n, a in enumerate(arrays):
            np.save(place(f"expected/{name}-{n}.npy"), a)

    save("raw-caffe", ((f"{n:08d}".encode(), raw(first(a), n % 3)) for n, a in enumerate(arrays)), [np.ascontiguousarray(a[..., ::-1]) for a in arrays])
    floats = np.arange(4, dtype=np.float32).tobytes()
    save("float-caffe", [(b"0", b"\x08\x01\x10\x02\x18\x02\x32" + varint(len(floats)) + floats + b"\x28\x01")], [])
    save("raw-numpy", ((number(n), pickle.dumps((a, n % 3))) for n, a in enumerate(arrays)), arrays)
    for protocol in (2, 4, 5):
        dump = lambda value: pickle.dumps(value, protocol)
        chunk = dump([(a, n % 3) for n, a in enumerate(arrays)])
        save(f"raw-list-{protocol}", [(b"0", chunk)], arrays)
        labels = np.array([n % 3 for n in range(6)])
        save(f"raw-nhwc-{protocol}", [(b"0", dump({"images": np.stack(even), "labels": labels}))], even)
        save(f"raw-nchw-{protocol}", [(b"0", dump((np.stack([first(a) for a in even]), labels)))], map(first, even))
        gray = [np.ascontiguousarray(a[:, :, 0]) for a in even]
        save(f"raw-gray-{protocol}", [(b"0", dump({"x": np.stack(gray), "y": labels.tolist()}))], gray)


def write_wrong(out, ways):
    """Writes LMDBs that are damaged, hostile or unknown, or that need options."""
    place = lambda name: os.path.join(out, name)
    images = list(ways.all())
    evil = [(number(n), pickle.dumps((b, l))) for n, _, l, b in images] + [(b"evil", pickle.dumps(Evil(out)))]
    evil += [(b"deep", b"\x80\x04" + b"]" * 10_000_000 + b"a" * 9_999_999 + b"."), (b"marks", b"\x80\x04" + b"(" * 10_000_000)]
    evil += [(b"long", b"\x80\x04\x8e" + (1 << 60).to_bytes(8, "little") + b"x"), (b"frame", b"\x80\x04\x95" + b"\xff" * 8 + b"N.")]
    write(place("evil.lmdb"), evil, subdir=False)
    write(place("strange"), ((number(n), b"\x7fnothing that is known " + number(n)) for n in range(5)))
    header = lambda name, form: write(place(name), ((number(n), l.to_bytes(*form) + b) for n, _, l, b in images))
    header("header-u32le", (4, "little"))
    header("header-u16be", (2, "big"))
    write(place("split-label"), ((f"train-{l}-{n:05d}".encode(), b) for n, _, l, b in images))
    with open(place("plain-labels"), "w") as labels:
        labels.writelines(f"{l}\n" for _, _, l, _ in images)
    few = [(number(n), pickle.dumps((b, l))) for n, _, l, b in images]
    write(place("claims"), few + [(b"__len__", pickle.dumps(33)), (b"__keys__", pickle.dumps([number(n) for n in range(1, 34)]))])


def main(source, out, count=None, *names):
    """Writes all layouts, or the named layouts."""
    os.makedirs(out, exist_ok=True)
    ways = Ways(source, out, int(count or 0))
    for name in names or WAYS:
        WAYS[name](ways, name)
        ways.list(name, name not in UNLABELLED)
    if count is None:
        write_raw(out)
        write_pages(os.path.join(out, "pages"), os.path.join(out, "expected"))
        write_wrong(out, ways)


if __name__ == "__main__":
    main(*sys.argv[1:])
