"""Compares the webdataset shards of each split with the rows of its arrays, as numpy reads both: compare_rows.py SOURCE FOLDER...

SOURCE is a `.npz` file. Each FOLDER is a split of its name, or holds all rows if no array has a split. Prints the number of samples.
"""

import glob
import io
import os
import sys
import tarfile

import numpy as np

source = dict(np.load(sys.argv[1]))
names = {"x": "npy", "data": "data.npy", "weight": "weight.npy", "is_odd": "is_odd.npy"}
count = 0
for folder in sys.argv[2:]:
    split = os.path.basename(folder)
    end = f"_{split}" if f"x_{split}" in source else ""
    samples = {}
    for path in glob.glob(os.path.join(glob.escape(folder), "*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                key, name = member.name.split(".", 1)
                samples.setdefault((path, key), {})[name] = tar.extractfile(member).read()
    label = source.get(f"y{end}", source.get("target")).ravel()
    fields = [(member, source[own + end]) for own, member in names.items() if own + end in source]
    of_row = {tuple((a[row].dtype.str, np.ascontiguousarray(a[row]).tobytes()) for _, a in fields): row for row in range(len(label))}
    found = []
    for sample in samples.values():
        arrays = {name: np.load(io.BytesIO(data)) for name, data in sample.items() if name.endswith("npy")}
        row = of_row[tuple((arrays[member].dtype.str, arrays[member].tobytes()) for member, _ in fields)]
        told = int(sample["cls"])
        assert label[row] == told, (folder, row, told)
        found.append(row)
    assert sorted(found) == list(range(len(label))), folder
    count += len(found)
print(count)
