"""Writes trees of .npz files: write_npz.py FOLDER.

- `good/CLASS/N.npz` by `numpy.savez` and `savez_compressed` in turn, and `good.json` with the text of each sample;
- `odd/a/N.npz`: arrays in Fortran order, dates, and components that some samples lack, and `odd.json` with the text of each sample;
- `bad/NAME.npz`: files that are damaged or have false headers.
"""

import io
import json
import struct
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

from read_values import told


def good(folder, random):
    rows = []
    for number in range(30):
        atoms = number % 5
        x = random.normal(size=(atoms, 6)).astype(np.float32)
        # NaN with a payload.
        x.view(np.uint32).reshape(-1)[:1] = 0x7FC12345
        sample = {"x": x, "y": random.integers(-9, 1 << 40, size=3), "weight": np.int16(number), "mask": x > 0}
        sample["names"] = np.array([f"n{number}\u00e9", "b"])
        path = folder / ["cat", "dog", "eel"][number % 3] / f"{number}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        [np.savez, np.savez_compressed][number // 3 % 2](path, **sample)
        # Types have as many axes as all have, and letters of none.
        rows.append({name: told(value) for name, value in sample.items()} | {"label": told(number % 3)})
    (folder.parent / "good.json").write_text(json.dumps(rows))


def odd(folder, random):
    (folder / "a").mkdir(parents=True)
    contents = {}
    for number in range(6):
        sample = {
            "x": random.normal(size=(4, 3)).astype(">f8"),
            "t": np.array([number], "M8[ns]"),
            "f": random.normal(size=(3, 2)),
        }
        if number == 2:
            sample["f"] = np.asfortranarray(sample["f"])
        if number % 2:
            sample["some"] = np.int16(number)
        np.savez_compressed(folder / "a" / f"{number}.npz", **sample)
        contents[f"a/{number}.npz"] = {name: told(value) for name, value in sample.items()}
    (folder.parent / "odd.json").write_text(json.dumps(contents))


def npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def archive(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in members:
            file.writestr(name, content)
    return out.getvalue()


def patched(content, place, value):
    return content[:place] + value + content[place + len(value) :]


def bad(folder):
    folder.mkdir()
    x = npy(np.arange(50, dtype=np.float32))
    two = archive([("x.npy", x), ("y.npy", x)])
    packed = archive([("x.npy", npy(np.zeros(100_000)))], zipfile.ZIP_DEFLATED)
    directory, packed_directory = two.rindex(b"PK\x01\x02", 0, two.rindex(b"PK\x01\x02")), packed.rindex(b"PK\x01\x02")
    second = two.rindex(b"PK\x01\x02")
    files = {
        "truncated": two[:-30],
        "half": two[: len(two) // 2],
        "none": b"this is no zip file, and long enough",
        "objects": archive([("x.npy", npy(np.array([{}, 1], object)))]),
        "structured": archive([("x.npy", npy(np.zeros(2, [("a", "i4"), ("b", "f8")])))]),
        "twice": archive([("x.npy", x), ("x.npy", x)]),
        "case": archive([("x.npy", x), ("X.npy", x)]),
        "absolute": archive([("/x.npy", x)]),
        "above": archive([("../x.npy", x)]),
        "text": archive([("x.npy", x), ("readme.txt", b"text")]),
        "bzip2": archive([("x.npy", x)], zipfile.ZIP_BZIP2),
        "encrypted": patched(two, directory + 8, b"\x01"),
        "flipped": patched(two, two.index(x) + 140, bytes([two[two.index(x) + 140] ^ 4])),
        "short": archive([("x.npy", x[:-3])]),
        "longer": archive([("x.npy", x + b"123")]),
        "claims": patched(packed, packed_directory + 24, struct.pack("<I", 0xFFFF0000)),
        "less": patched(packed, packed_directory + 24, struct.pack("<I", 800_000)),
        "zip64": patched(packed, packed_directory + 24, b"\xff" * 4),
        "overlap": patched(two, second + 42, struct.pack("<I", 0)),
        "many": archive([(f"m{number}.npy", x) for number in range(100)]),
        "huge": archive([("x.npy", x.replace(b"(50,), }", b"(1 << 62,)"[:0] + b"(4611686018427387904,), }")[: len(x)])]),
        "empty": archive([]),
    }
    for name, content in files.items():
        (folder / f"{name}.npz").write_bytes(content)


def main():
    folder, random = Path(sys.argv[1]), np.random.default_rng(11)
    good(folder / "good", random)
    odd(folder / "odd", random)
    bad(folder / "bad")


if __name__ == "__main__":
    main()
