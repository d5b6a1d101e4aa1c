"""LitData on chunks of its own, shuffled; Pillow decodes. See meter.py."""

import os
import tempfile

# It empties these folders before it writes, whoever else's they are.
scratch = tempfile.mkdtemp()
for variable in ("DATA_OPTIMIZER_CACHE_FOLDER", "DATA_OPTIMIZER_DATA_CACHE_FOLDER"):
    os.environ[variable] = os.path.join(scratch, variable)

import litdata  # noqa: E402
from by_pillow import Transform  # noqa: E402
from meter import BATCH, WORKERS, listing, measure, run  # noqa: E402


def sample(path_and_label):
    path, label = path_and_label
    return {"image": path.read_bytes(), "label": label}


class Dataset(litdata.StreamingDataset):
    # `transform` is the name of one that LitData calls by itself.
    crop = Transform()

    def __getitem__(self, number):
        sample = super().__getitem__(number)
        return self.crop(sample["image"]), sample["label"]


def write(source: str, destination: str) -> None:
    litdata.optimize(
        sample, listing(source), destination, chunk_bytes="64MB", num_workers=WORKERS, verbose=False, start_method="fork"
    )


def read(folder: str) -> None:
    batches = litdata.StreamingDataLoader(Dataset(folder, shuffle=True), batch_size=BATCH, num_workers=WORKERS)
    measure(batches, ["torch", "litdata", "pillow"])


if __name__ == "__main__":
    run(read, write)
