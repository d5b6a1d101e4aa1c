"""Read samples that are more than an image: masks, several views, arrays of different lengths. Prints seconds and CPU seconds.

    samples.py make-masks TREE IMAGES DATASET    pack images of a tree with a PNG mask of each
    samples.py image|image+mask DATASET          batches of random crops of 224, without and with the masks
    samples.py masks DATASET                     decode the masks alone, as they are
    samples.py make-tokens SAMPLES DATASET       rows of 8 to 120 numbers, packed
    samples.py make-lmdb SAMPLES LMDB            the same as pickles
    samples.py tokens DATASET                    batches of 1,024 rows, padded
    samples.py tokens-lmdb LMDB                  the same by PyTorch's DataLoader with two workers and pad_sequence
    samples.py views DATASET                     2 crops of 224 and 8 of 96 of each image
    samples.py views-torchvision TREE IMAGES     the same by Pillow and v2 in PyTorch's DataLoader with two workers

Two threads or two processes. Imports are not counted; opening is.
"""

import pickle
import sys
from pathlib import Path

from common import measure, pickles

BATCH, TOKENS, THREADS = 64, 1024, 2


def files_of(tree: str, count: str) -> list[Path]:
    return sorted(Path(tree).rglob("*.jpg"))[: int(count)]


def make_masks(tree: str, count: str, dataset: str) -> None:
    import io

    import numpy
    import shardpack
    from PIL import Image

    def rows():
        numbers = numpy.random.default_rng(0)
        for path in files_of(tree, count):
            content = path.read_bytes()
            size = Image.open(io.BytesIO(content)).size
            # Areas of 21 classes, as in Pascal VOC.
            areas = Image.fromarray(
                numbers.integers(0, 21, (9, 12), numpy.uint8)
            ).resize(size, Image.NEAREST)
            mask = io.BytesIO()
            areas.save(mask, "png")
            yield {"image": content, "mask": mask.getvalue()}

    shardpack.pack(rows(), dataset, columns={"mask": "png"})


def length(batch) -> int:
    return len(batch.samples)


def crops(dataset: str, decode: dict[str, str]) -> None:
    from shardpack import Loader

    options = {"transform": "train", "output": "numpy", "epochs": 1, "threads": THREADS}
    measure(lambda: Loader(dataset, BATCH, decode=decode, **options), length)


def masks(dataset: str) -> None:
    from shardpack import Loader

    options = {"decode": {"mask": "mask"}, "output": "numpy", "epochs": 1, "threads": THREADS}
    measure(lambda: Loader(dataset, BATCH, **options), lambda batch: len(batch["mask.png"]))


def rows_of_tokens(samples: str):
    import numpy

    numbers = numpy.random.default_rng(0)
    for _ in range(int(samples)):
        yield numbers.integers(0, 50_000, numbers.integers(8, 121)).astype(numpy.int64)


def make_tokens(samples: str, dataset: str) -> None:
    import shardpack

    rows = ({"ids": ids} for ids in rows_of_tokens(samples))
    shardpack.pack(rows, dataset, columns={"ids": "int64[n]"}, format="mds")


def make_lmdb(samples: str, path: str) -> None:
    import lmdb

    environment = lmdb.open(path, map_size=1 << 40, subdir=False)
    with environment.begin(write=True) as transaction:
        for number, ids in enumerate(rows_of_tokens(samples)):
            transaction.put(b"%08d" % number, pickle.dumps(ids), append=True)
    environment.close()


def tokens(dataset: str) -> None:
    from shardpack import Loader

    options = {"output": "numpy", "epochs": 1, "threads": THREADS}
    measure(lambda: Loader(dataset, TOKENS, **options), lambda batch: batch["ids.npy"].padded().shape[0])


def tokens_lmdb(path: str) -> None:
    import torch
    from torch.utils.data import DataLoader

    def padded(rows):
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    rows = pickles(path, torch.from_numpy)
    options = {"batch_size": TOKENS, "shuffle": True, "num_workers": THREADS, "collate_fn": padded}
    measure(lambda: DataLoader(rows, **options), len)


def views(dataset: str) -> None:
    from shardpack import Loader
    from shardpack.transforms import Pipeline, RandomHorizontalFlip, RandomResizedCrop

    def pipeline(side: int, scale: tuple[float, float]) -> Pipeline:
        return Pipeline([RandomResizedCrop(side, scale), RandomHorizontalFlip()])

    all_views = [*2 * [pipeline(224, (0.4, 1.0))], *8 * [pipeline(96, (0.05, 0.4))]]
    options = {"transform": all_views, "output": "numpy", "epochs": 1, "threads": THREADS}
    measure(lambda: Loader(dataset, BATCH, **options), length)


def views_torchvision(tree: str, count: str) -> None:
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision.transforms import v2

    torch.set_num_threads(1)

    def pipeline(side: int, scale: tuple[float, float]):
        return v2.Compose([v2.RandomResizedCrop(side, scale), v2.RandomHorizontalFlip(), v2.PILToTensor()])

    class Views(Dataset):
        def __init__(self) -> None:
            self.files = files_of(tree, count)
            self.views = [*2 * [pipeline(224, (0.4, 1.0))], *8 * [pipeline(96, (0.05, 0.4))]]

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, number: int):
            image = Image.open(self.files[number]).convert("RGB")
            return [view(image) for view in self.views]

    options = {"batch_size": BATCH, "shuffle": True, "num_workers": THREADS}
    measure(lambda: DataLoader(Views(), **options), lambda batch: len(batch[0]))


if __name__ == "__main__":
    word, *words = sys.argv[1:]
    {
        "make-masks": make_masks,
        "image": lambda dataset: crops(dataset, {}),
        "image+mask": lambda dataset: crops(dataset, {"mask": "mask"}),
        "masks": masks,
        "make-tokens": make_tokens,
        "make-lmdb": make_lmdb,
        "tokens": tokens,
        "tokens-lmdb": tokens_lmdb,
        "views": views,
        "views-torchvision": views_torchvision,
    }[word](*words)
