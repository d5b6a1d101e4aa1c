"""torchvision's ImageFolder and PyTorch's DataLoader; torchvision.io decodes, by libjpeg-turbo, and transforms take tensors. See
meter.py."""

from by_pillow import loader
from meter import SIDE, measure, run
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2


def image(path: str):
    return decode_jpeg(read_file(path), mode=ImageReadMode.RGB)


def read(folder: str) -> None:
    transform = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()])
    dataset = ImageFolder(folder, loader=image, transform=transform)
    measure(loader(dataset, shuffle=True), ["torch", "torchvision"])


run(read)
