"""Writes samples without images: write_values.py DST.

- `dicts/1.lmdb` to `3.lmdb`, files without folders: pickled dicts of arrays with a varying first axis, a number and a text;
- `tuples.lmdb`: pickled pairs of an array and an integer label;
- `odd.lmdb`: pickled dicts with every dtype, shapes without axes or items, lists, maps, booleans, and fields that some samples
  lack;
- `msgpack.lmdb`: the plain Python fields of `odd.lmdb`, as msgpack;
- `empty-images.lmdb`: pickled dicts of an image without pixels and another value;
- `partly.lmdb`: pickled dicts, one without `label`; `many.lmdb`: 5,000 such dicts as a list in one value; `small.lmdb`: 9,000
  small dicts, some truncated, one long;
- `tensors.lmdb`: pickled dicts of PyTorch tensors;
- `pictures.lmdb`, `pictures-pairs.lmdb`: pickled dicts, and tuples, of an image, a label and other values; `pictures-lists.lmdb`:
  the same as lists of seven dicts; `pictures-long.lmdb`: 20 dicts with long images as one list;
- `table.h5`: datasets `x` and `y` with equal row counts.

NAME.json beside a file holds the text of every sample's fields, as `read_values.py` prints it.
"""

import json
import os
import pickle
import sys

import h5py
import lmdb
import msgpack
import numpy as np

from read_values import told


def write(path, values, dump=pickle.dumps):
    environment = lmdb.open(path, map_size=1 << 30, subdir=False, lock=False, sync=False)
    with environment.begin(write=True) as transaction:
        for number, value in values:
            transaction.put(f"{number}".encode(), dump(value))
    environment.close()


def expect(path, samples):
    """Writes NAME.json; `None` marks a missing field."""
    rows = [{name: told(value) for name, value in sample.items() if value is not None} for sample in samples]
    with open(path + ".json", "w") as out:
        json.dump(rows, out)


def dicts(random, count):
    for number in range(count):
        atoms = int(random.integers(1, 40))
        fingerprint = random.normal(size=(atoms, 64)).astype(np.float32)
        # NaN with a payload, the other sign, and infinities.
        fingerprint.view(np.uint32)[0, :4] = [0x7FC12345, 0xFFC00001, 0x7F800000, 0xFF800000]
        yield {
            "fingerprint": fingerprint,
            "energy": [float(random.normal()), float(number), float("nan"), float("inf")][number % 4],
            "atoms": random.integers(-5, 1 << 40, size=atoms),
            "forces": random.normal(size=(atoms, 3)),
            "name": f"molecule {number} \u00e9",
        }


def odd(random, count):
    dtypes = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
    dtypes += ["float64", "complex64", "complex128", ">f8", ">i2", "S5", "U3"]
    shapes = [(3, 4), (1,), (2, 0), (), (2, 3, 2)]
    for number in range(count):
        sample = {}
        for place, dtype in enumerate(dtypes):
            values = random.integers(0, 100, size=shapes[number % len(shapes)])
            array = np.asarray(values).astype(dtype)
            if number % 2 and array.ndim == 2:
                array = np.asfortranarray(array)
            sample[f"a{place}"] = array
        # One dtype and one shape in all.
        sample["same"] = random.normal(size=(2, 2)).astype(np.float32)
        sample["list"] = [number, 0.5, None, "x", [True, {"a": []}]]
        sample["map"] = {"k": number, "l": [1, 2.5]}
        sample["yes"] = number % 2 == 0
        sample["bytes"] = bytes([0, number, 255])
        sample["some"] = number if number % 3 else None
        sample["single"] = np.float32(number / 3)
        sample["huge"] = np.uint64(2**64 - 1 - number)
        sample["turn"] = np.complex64(1 + number * 1j)
        yield sample


def main():
    out = sys.argv[1]
    random = np.random.default_rng(7)
    samples = list(enumerate(dicts(random, 120)))
    os.mkdir(os.path.join(out, "dicts"))
    for file in range(3):
        write(os.path.join(out, "dicts", f"{file + 1}.lmdb"), samples[file * 40 : (file + 1) * 40])
    expect(os.path.join(out, "dicts"), [sample for _, sample in samples])

    pairs = [(random.normal(size=100).astype(np.float32), number % 7) for number in range(60)]
    write(os.path.join(out, "tuples.lmdb"), enumerate(pairs))
    expect(os.path.join(out, "tuples.lmdb"), [{"x0": array, "label": label} for array, label in pairs])

    samples = list(odd(random, 40))
    write(os.path.join(out, "odd.lmdb"), enumerate(samples))
    expect(os.path.join(out, "odd.lmdb"), samples)

    plain = ["list", "map", "yes", "bytes", "some"]
    samples = [{name: sample[name] for name in plain} for sample in samples]
    write(os.path.join(out, "msgpack.lmdb"), enumerate(samples), msgpack.packb)
    expect(os.path.join(out, "msgpack.lmdb"), samples)

    # Tensors as PyTorch pickles them, and the expected values.
    with open(os.path.join(os.path.dirname(__file__), "../../fixtures/plain/torch-4.pickle"), "rb") as file:
        pickled = file.read()
    write(os.path.join(out, "tensors.lmdb"), [(number, pickled) for number in range(4)], bytes)
    table = np.arange(12, dtype="f4").reshape(3, 4)
    tensors = {"table": table, "transposed": table.T, "row": table[1], "column": table[:, 2], "part": table[::2, 1:3]}
    tensors |= {"label": 7, "scalar": np.float16(0.5), "none": np.zeros((0, 3), "i4"), "flags": np.array([True, False])}
    expect(os.path.join(out, "tensors.lmdb"), [tensors | {"complex": np.array([1 + 2j], "c8")}] * 4)

    photo = os.path.join(os.path.dirname(__file__), "../../fixtures/photos/textures/fur.jpg")
    with open(photo, "rb") as file:
        image = file.read()
    pictures = []
    for number in range(30):
        boxes = [[number, 1.5, 2, 3]] * (number % 3)
        embedding = random.normal(size=16).astype(np.float32)
        fields = {"boxes": boxes, "score": np.float16(number), "embedding": embedding, "caption": f"no {number}"}
        pictures.append(fields | {"points": random.integers(0, 9, size=(number % 4, 2))})
    with_image = [{"image": image + bytes([number]), "label": number % 3} | fields for number, fields in enumerate(pictures)]
    write(os.path.join(out, "pictures.lmdb"), enumerate(with_image))
    expect(os.path.join(out, "pictures.lmdb"), pictures)
    pairs = [(sample["image"], sample["label"], sample["embedding"]) for sample in with_image]
    write(os.path.join(out, "pictures-pairs.lmdb"), enumerate(pairs))
    expect(os.path.join(out, "pictures-pairs.lmdb"), [{"x2": embedding} for _, _, embedding in pairs])
    lists = [with_image[start : start + 7] for start in range(0, 30, 7)]
    write(os.path.join(out, "pictures-lists.lmdb"), enumerate(lists))
    expect(os.path.join(out, "pictures-lists.lmdb"), pictures)
    # Fields that are not arrays are omitted, because the value is too long to read for each sample.
    long = [sample | {"image": sample["image"] + bytes(1 << 18)} for sample in with_image[:20]]
    write(os.path.join(out, "pictures-long.lmdb"), [(0, long)])
    arrays = [{name: one[name] for name in ("embedding", "points", "score")} for one in long]
    expect(os.path.join(out, "pictures-long.lmdb"), arrays)

    # Pixels in a shape that is invalid for images.
    empty = [{"image": np.zeros((2, 0, 3), "u1"), "label": number % 2, "score": number / 2} for number in range(6)]
    write(os.path.join(out, "empty-images.lmdb"), enumerate(empty))

    row = lambda number: {"x": np.full(2, number, np.float32), "label": number % 3}
    partly = [row(number) for number in range(20)]
    del partly[7]["label"]
    write(os.path.join(out, "partly.lmdb"), enumerate(partly))
    small = [pickle.dumps({"x": np.full(9, number, np.float32), "b": number}) for number in range(9000)]
    for number in (0, 4095, 4096, 8999):
        small[number] = small[number][:-2]
    small[5000] = pickle.dumps({"x": np.zeros(9 << 16, np.float32), "b": 5000})
    write(os.path.join(out, "small.lmdb"), [*enumerate(small), ("__len__", pickle.dumps(9000))], dump=bytes)
    write(os.path.join(out, "many.lmdb"), [(0, [row(number) for number in range(5000)])])

    x, y = random.normal(size=(50, 64)).astype(np.float32), random.integers(0, 9, size=50)
    with h5py.File(os.path.join(out, "table.h5"), "w") as file:
        file["x"], file["y"] = x, y
    expect(os.path.join(out, "table.h5"), [{"x": row, "label": int(label)} for row, label in zip(x, y)])


if __name__ == "__main__":
    main()
