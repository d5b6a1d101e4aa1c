"""MosaicML Streaming on the MDS shards that shardpack writes, with its default shuffle; Pillow decodes. See meter.py."""

from by_pillow import Transform, loader
from meter import BATCH, measure, run
from streaming import StreamingDataset


class Dataset(StreamingDataset):
    transform = Transform()

    def __getitem__(self, number):
        sample = super().__getitem__(number)
        return self.transform(sample["image"]), sample["label"]


def read(folder: str) -> None:
    measure(loader(Dataset(local=folder, shuffle=True, batch_size=BATCH)), ["torch", "mosaicml-streaming", "pillow"])


run(read)
