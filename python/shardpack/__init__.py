"""Pack a tree of images into large sequential shards, prove that nothing was lost, and train from them.

    shardpack.pack("photos", "packed")
    for images, labels in shardpack.Loader("packed", 64, transform="train"):
        ...

`Loader` makes batches for training, `Dataset` is random access, `pack`, `convert`, `verify`, `inspect`, `plan`, `adopt` and `crops` are the
commands of the program `shardpack`, `transforms` has what is made of images, `errors` what goes wrong.
"""

from . import errors, transforms
from ._mapped import Item
from ._native import HAS_TURBO, __version__, decode
from .batch import NO_LABEL, Batch, Encoded, NamedBatch
from .commands import adopt, convert, crops, inspect, pack, plan, verify
from .dataset import Dataset, Sample
from .distributed import Ranks
from .errors import DataError, Error, Interrupted, MachineError, UsageError
from .loader import Loader
from .part import Part
from .receipt import Expected, Receipt
from .running import Progress, Report

__all__ = [
    "Batch",
    "DataError",
    "Dataset",
    "Encoded",
    "Error",
    "Expected",
    "HAS_TURBO",
    "Interrupted",
    "Item",
    "Loader",
    "MachineError",
    "NO_LABEL",
    "NamedBatch",
    "Part",
    "Progress",
    "Ranks",
    "Receipt",
    "Report",
    "Sample",
    "UsageError",
    "__version__",
    "adopt",
    "convert",
    "crops",
    "decode",
    "errors",
    "inspect",
    "pack",
    "plan",
    "transforms",
    "verify",
]
