"""Bytes to `[3, 224, 224] uint8` with Pillow and torchvision's transforms: what most people have, and what several peers leave to
their users."""

import io

import torch
from meter import BATCH, SIDE, WORKERS
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms


class Transform:
    def __init__(self) -> None:
        crop, flip = transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip()
        self.steps = transforms.Compose([crop, flip, transforms.PILToTensor()])

    def __call__(self, image: bytes | memoryview | Image.Image) -> torch.Tensor:
        if not isinstance(image, Image.Image):
            image = Image.open(io.BytesIO(image))
        return self.steps(image.convert("RGB"))


def loader(dataset, shuffle: bool | None = None) -> DataLoader:
    return DataLoader(dataset, batch_size=BATCH, num_workers=WORKERS, shuffle=shuffle)
