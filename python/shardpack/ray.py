"""shardpack on a Ray cluster: packing by its nodes, and packed datasets as sources of Ray Data.

    report = shardpack.ray.pack("photos", "packed", parts=256)
    for batch in shardpack.ray.dataset("packed").iter_batches(batch_size=64, local_shuffle_buffer_size=1024):
        ...

The folders are of a file system that all nodes see, and all nodes have the package. `dataset` takes URLs, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._ray_pack import PartsProgress, pack

if TYPE_CHECKING:
    from ._ray_data import Source, dataset

__all__ = ["PartsProgress", "Source", "dataset", "pack"]


def __getattr__(name: str) -> Any:
    # Ray Data needs PyArrow, which Ray comes without.
    if name not in ("Source", "dataset"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _ray_data

    return getattr(_ray_data, name)
