"""Hugging Face datasets on Arrow files of its own; Pillow decodes. See meter.py."""

import os
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"

import datasets  # noqa: E402
from by_pillow import Transform, loader  # noqa: E402
from meter import measure, run  # noqa: E402


class ForBatches:
    def __init__(self) -> None:
        self.transform = Transform()

    def __call__(self, samples):
        return {"image": [self.transform(image) for image in samples["image"]], "label": samples["label"]}


def write(source: str, destination: str) -> None:
    datasets.disable_progress_bars()
    cache = f"{destination}.cache"
    dataset = datasets.load_dataset("imagefolder", data_dir=source, split="train", cache_dir=cache, drop_labels=False)
    dataset.save_to_disk(destination)
    shutil.rmtree(cache)


def read(folder: str) -> None:
    dataset = datasets.load_from_disk(folder)
    dataset.set_transform(ForBatches())
    distributions = ["torch", "datasets", "pillow"]
    measure(loader(dataset, shuffle=True), distributions, dimensions=lambda batch: batch["image"])


if __name__ == "__main__":
    run(read, write)
