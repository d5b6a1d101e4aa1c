"""torchvision's ImageFolder and PyTorch's DataLoader; Pillow decodes. See meter.py."""

from by_pillow import Transform, loader
from meter import measure, run
from torchvision.datasets import ImageFolder


def read(folder: str) -> None:
    # ImageFolder's own loader is Pillow.
    dataset = ImageFolder(folder, transform=Transform())
    measure(loader(dataset, shuffle=True), ["torch", "torchvision", "pillow"])


run(read)
