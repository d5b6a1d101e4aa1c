"""shardpack on a Ray cluster: pack with many nodes, and read packed datasets with Ray Data.

All nodes need the package, and a file system where they see the folders under the same paths; `dataset` also reads
URLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._ray_pack import PartsProgress, pack

if TYPE_CHECKING:
    from ._ray_data import Source, dataset

__all__ = ["PartsProgress", "Source", "dataset", "pack"]


def __getattr__(name: str) -> Any:
    # Ray Data needs PyArrow, which Ray does not install.
    if name not in ("Source", "dataset"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _ray_data

    return getattr(_ray_data, name)
