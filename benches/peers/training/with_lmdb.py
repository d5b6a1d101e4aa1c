"""An LMDB of pickles, as most who use one write it; Pillow decodes. See meter.py."""

import pickle

import lmdb
from by_pillow import Transform, loader
from meter import listing, measure, run

MAP_BYTES = 1 << 40


class Dataset:
    def __init__(self, path: str) -> None:
        self.path, self.environment, self.transform = path, None, Transform()
        with self.open() as environment:
            self.samples = environment.stat()["entries"]

    def open(self) -> lmdb.Environment:
        return lmdb.open(self.path, subdir=False, readonly=True, lock=False, readahead=False)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, number: int):
        # Not to be taken through a fork.
        self.environment = self.environment or self.open()
        with self.environment.begin(buffers=True) as transaction:
            image, label = pickle.loads(transaction.get(b"%09d" % number))
        return self.transform(image), label


def write(source: str, destination: str) -> None:
    with lmdb.open(destination, subdir=False, map_size=MAP_BYTES) as environment, environment.begin(write=True) as all_of_it:
        for number, (path, label) in enumerate(listing(source)):
            all_of_it.put(b"%09d" % number, pickle.dumps((path.read_bytes(), label)))


def read(path: str) -> None:
    measure(loader(Dataset(path), shuffle=True), ["torch", "lmdb", "pillow"])


run(read, write)
