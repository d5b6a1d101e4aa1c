"""Classification: packs class folders, verifies the dataset, and loads random crops for training.

    python imagenet.py ILSVRC/train packed

`crops=True` writes crop tables: the loader then decodes only the cropped part of each image.
"""

import sys

import shardpack
from shardpack.transforms import Normalize, Pipeline, RandomHorizontalFlip, RandomResizedCrop


def main(src: str, dst: str) -> None:
    shardpack.pack(src, dst, crops=True)
    # Compares every image with its file.
    report = shardpack.verify(dst, against=[src])
    print("verified:", report.ok)

    steps = [RandomResizedCrop(224), RandomHorizontalFlip(), Normalize()]
    loader = shardpack.Loader(dst, 64, transform=Pipeline(steps, dtype="float16"))
    for epoch in range(2):
        loader.set_epoch(epoch)
        for images, labels in loader:
            # Train here. The batches are torch tensors if torch is imported, else numpy arrays.
            assert images.shape[1:] == (3, 224, 224) and len(labels) == len(images)
        stats = loader.stats()
        print(f"epoch {epoch}: {stats['samples_per_s']:.0f} images a second, limited by: {stats['bottleneck']}")
    # Each image was delivered once.
    print("complete:", loader.receipt().proves(loader.expected(1)), "classes:", len(loader.classes))


if __name__ == "__main__":
    main(*sys.argv[1:])
