"""Writes samples of random types and shapes: write_random_values.py DST SEED CASES.

Case N is `N.lmdb`, pickled dicts or tuples, or `N.h5`, datasets with equal row counts. Some fields are arrays of any dtype that numpy names,
with 0 to 4 axes, some empty. Their shapes agree, or differ in the first axis, in all axes, or in the number of axes. Other fields are
numbers, text, bytes, lists and maps, which some samples lack. NAME.json beside a file holds the text that `read_values.py` prints.
"""

import os
import pickle
import sys

import h5py
import numpy as np

from write_values import expect, write

DTYPES = "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16 >f8 >f4 >i2 >u8 >c8 S1 S7 U2".split()
TEXTS = ["", "\u00e9", "a\nb", "\U0001f600", "0", "null", "NaN", "x" * 300, "\x00"]


class Case:
    def __init__(self, seed, number):
        self.random = np.random.default_rng([seed, number])

    def below(self, end):
        return int(self.random.integers(end))

    def shape(self):
        """Lengths of 0 to 4 axes, some lengths 0."""
        return tuple([0, 1, 2, 3, 5][self.below(5) if self.below(4) else 1] for _ in range(self.below(5)))

    def array(self, dtype, shape):
        """Random bits, which include NaNs of all kinds; valid text and booleans."""
        dtype = np.dtype(dtype)
        if dtype.kind in "SU?":
            values = np.asarray(self.random.integers(0, 1000, size=shape)).astype(str)
            return np.asarray(values.astype(int) % 2 == 0) if dtype.kind == "?" else values.astype(dtype)
        bits = self.random.bytes(int(np.prod(shape, dtype=int)) * dtype.itemsize)
        array = np.frombuffer(bits, dtype).reshape(shape)
        if array.ndim > 1 and not self.below(3):
            array = np.asfortranarray(array)
        if array.ndim and not self.below(4):
            array = np.repeat(array, 2, axis=0)[::2]
        return array

    def arrays(self, count):
        """One field of arrays; a random policy decides if their shapes or dtypes differ."""
        dtype, shape, policy = DTYPES[self.below(len(DTYPES))], self.shape(), self.below(5)
        for _ in range(count):
            of_this = shape
            if policy == 1 and shape:
                of_this = (self.below(6),) + shape[1:]
            elif policy == 2:
                of_this = tuple(self.below(4) for _ in shape)
            elif policy == 3:
                of_this = self.shape()
            elif policy == 4 and not self.below(5):
                dtype = DTYPES[self.below(len(DTYPES))]
            yield self.array(dtype, of_this)

    def plain(self, count):
        """One field without arrays."""
        kind, lacks = self.below(8), not self.below(4)
        for _ in range(count):
            if lacks and not self.below(3):
                yield None
            elif kind == 0:
                yield int(self.random.integers(-(1 << 63), (1 << 63) - 1)) >> self.below(63)
            elif kind == 1:
                yield [0.0, -0.0, 5e-324, 1e308, float("nan"), float("inf"), float(self.random.normal())][self.below(7)]
            elif kind == 2:
                # Streaming does not distinguish an empty text from a missing text.
                yield TEXTS[1 + self.below(len(TEXTS) - 1)] if lacks else TEXTS[self.below(len(TEXTS))]
            elif kind == 3:
                yield self.random.bytes(self.below(20) + lacks)
            elif kind == 4:
                yield bool(self.below(2))
            elif kind == 5:
                yield [self.below(9), None, [TEXTS[self.below(5)]], 0.25][: self.below(5)]
            elif kind == 6:
                yield {"a": self.below(9), "\u00e9": [True, {}], "c": {"d": 1e-7}}
            else:
                yield [self.below(100), self.below(100) / 8][self.below(2)]

    def fields(self):
        count = 4 + self.below(12)
        fields = {"f0": list(self.arrays(count))}
        for number in range(1, 1 + self.below(7)):
            fields[f"f{number}"] = list(self.arrays(count) if self.below(5) > 1 else self.plain(count))
        return [dict(zip(fields, values)) for values in zip(*fields.values())]

    def rows(self, path):
        """Writes datasets of numbers with equal row counts."""
        count = 4 + self.below(12)
        plain = [dtype for dtype in DTYPES if np.dtype(dtype).kind != "U"]
        arrays = {}
        for number in range(1 + self.below(4)):
            arrays[f"f{number}"] = self.array(plain[self.below(len(plain))], (count,) + self.shape()[:3])
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                packed = {"compression": "gzip", "shuffle": True} if array.size and self.below(2) else {}
                file.create_dataset(name, data=array, **packed)
        return arrays, count


def main():
    out, seed, cases = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in range(cases):
        case = Case(seed, number)
        if number % 3 == 2:
            path = os.path.join(out, f"{number}.h5")
            arrays, count = case.rows(path)
            samples = [{name: array[row, ...] for name, array in arrays.items()} for row in range(count)]
        else:
            path = os.path.join(out, f"{number}.lmdb")
            samples = case.fields()
            if number % 3 == 1:
                samples = [{f"x{place}": value for place, value in enumerate(sample.values())} for sample in samples]
                write(path, enumerate(samples), lambda sample: pickle.dumps(tuple(sample.values())))
            else:
                write(path, enumerate(samples))
        expect(path, samples)


if __name__ == "__main__":
    main()
