"""Pack images into large sequential shards, verify them, and train from them.

    import shardpack

    shardpack.pack("photos", "packed")
    for images, labels in shardpack.Loader("packed", 64, transform="train"):
        ...

- `Loader` makes training batches; `Part` is one dataset of a mix, and `Receipt` proves which samples were seen.
- `Dataset` is random access to samples; `decode` decodes one image.
- `pack`, `convert`, `adopt`, `plan`, `merge`, `status`, `verify`, `inspect` and `crops` are the commands of the program
  `shardpack`.
- `Writer` writes a dataset row by row, and `pack` also takes rows: dicts of images, text, numbers and arrays.
- `transforms` has native image transforms, `errors` the exceptions.
- `shardpack.torch` and `shardpack.ray` support torch's `DataLoader` and Ray; import them by name.
"""

from typing import TYPE_CHECKING, Any

from . import errors, transforms
from ._native import __version__, crop_table, decode
from .commands import adopt, convert, crops, inspect, merge, pack, plan, status, verify
from .errors import DataError, Error, Interrupted, MachineError, UsageError
from .running import Progress, Report

if TYPE_CHECKING:
    from ._cropped import Cropped
    from ._explained import Advice
    from ._mapped import Item
    from .batch import NO_LABEL, Batch, Encoded, NamedBatch
    from .dataset import Dataset, Sample
    from .distributed import Ranks
    from .loader import Loader
    from .part import Part
    from .ragged import Ragged
    from .receipt import Expected, Receipt
    from .rows import Writer
else:
    #: Names imported on first use: importing numpy takes ten times as long as the program takes to start.
    _LATER = {
        **dict.fromkeys(["Batch", "Encoded", "NO_LABEL", "NamedBatch"], "batch"),
        **dict.fromkeys(["Dataset", "Sample"], "dataset"),
        **dict.fromkeys(["Expected", "Receipt"], "receipt"),
        **{
            "Advice": "_explained",
            "Cropped": "_cropped",
            "Item": "_mapped",
            "Loader": "loader",
            "Part": "part",
            "Ragged": "ragged",
            "Ranks": "distributed",
            "Writer": "rows",
        },
    }

    def __getattr__(name: str) -> Any:
        import importlib

        if name in _LATER.values():
            return importlib.import_module(f".{name}", __name__)
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER, *_LATER.values()})


__all__ = [
    "Advice",
    "Batch",
    "Cropped",
    "DataError",
    "Dataset",
    "Encoded",
    "Error",
    "Expected",
    "Interrupted",
    "Item",
    "Loader",
    "MachineError",
    "NO_LABEL",
    "NamedBatch",
    "Part",
    "Progress",
    "Ragged",
    "Ranks",
    "Receipt",
    "Report",
    "Sample",
    "UsageError",
    "Writer",
    "__version__",
    "adopt",
    "convert",
    "crop_table",
    "crops",
    "decode",
    "errors",
    "inspect",
    "merge",
    "pack",
    "plan",
    "status",
    "transforms",
    "verify",
]
