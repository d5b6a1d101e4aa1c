"""webdataset on the tar shards that shardpack writes: shards shuffled, then a buffer of 1,000 samples; Pillow decodes. See meter.py."""

from pathlib import Path

import webdataset
from by_pillow import Transform
from meter import BATCH, WORKERS, measure, run


def read(folder: str) -> None:
    shards = sorted(map(str, Path(folder).glob("*.tar")))
    transform = Transform()
    dataset = (
        webdataset.WebDataset(shards, shardshuffle=len(shards))
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map_tuple(transform, int)
        # In the worker, as webdataset recommends.
        .batched(BATCH)
    )
    batches = webdataset.WebLoader(dataset, batch_size=None, num_workers=WORKERS)
    measure(batches, ["torch", "webdataset", "pillow"])


run(read)
