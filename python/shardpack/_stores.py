"""Settings of object stores and web servers, in addition to the environment."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from . import _native
from ._sizes import in_bytes, shown
from .errors import UsageError
from .running import PathLike

#: Value of a setting; converted to text.
StoreValue = Union[str, int, float, "os.PathLike[str]"]
#: Settings of a store: names with values, or with lists of values for repeatable settings.
Store = Mapping[str, Union[StoreValue, Sequence[StoreValue]]]


@dataclass(frozen=True, repr=False)
class Settings:
    """Store settings and cache. Values may be secrets, so `repr` shows only names."""

    pairs: tuple[tuple[str, str], ...] = ()
    #: Folder of the cache, and its limit in bytes.
    cache: tuple[str, int] | None = None

    @classmethod
    def of(cls, store: Store | None) -> Settings:
        """Return a caller's settings; anything but names with values is a `UsageError`."""
        if store is None:
            return cls()
        if not isinstance(store, Mapping):
            raise UsageError("store is no mapping of names to values", help='store={"region": "eu-west-1"}')
        pairs = []
        for name, value in store.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            pairs += [(name, _text(name, one)) for one in values]
        return cls(tuple(pairs))

    def with_cache(self, cache_dir: PathLike | None, cache_bytes: int | str | None) -> Settings:
        """Return these settings with the caller's cache; a missing folder or limit is a `UsageError`."""
        if cache_dir is None and cache_bytes is None:
            return self
        if cache_dir is None:
            raise UsageError("cache_bytes is the limit of a cache, and there is none", help="cache_dir=FOLDER")
        if cache_bytes is None:
            raise UsageError("cache_dir: a cache has a limit", os.fspath(cache_dir), help='cache_bytes="100GiB"')
        return replace(self, cache=(os.path.abspath(cache_dir), in_bytes(cache_bytes, "cache_bytes")))

    def mapping(self) -> dict[str, list[str]]:
        """Return the settings as a caller would give them."""
        found: dict[str, list[str]] = {}
        for name, value in self.pairs:
            found.setdefault(name, []).append(value)
        return found

    def __bool__(self) -> bool:
        return bool(self.pairs or self.cache)

    def __repr__(self) -> str:
        return f"Settings({', '.join(name for name, _ in self.pairs)})"


def _text(name: object, value: object) -> str:
    if not isinstance(name, str):
        raise UsageError(f"store: a name is a string, and not {type(name).__name__}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    # The value may be a secret.
    raise UsageError(f"store: {name} is a {type(value).__name__}, and no text")


def is_url(path: PathLike) -> bool:
    """Return whether `path` is the URL of a dataset."""
    return _native.is_url(os.fspath(path))


def absolute(path: PathLike) -> str:
    """Return a path that is valid in any working folder; URLs are unchanged."""
    return os.fspath(path) if is_url(path) else os.path.abspath(path)


def open_native(
    path: PathLike, check_content: bool = False, store: Settings | None = None, raw: bool = False
) -> _native.Dataset:
    """Open a native dataset; a missing or unsuitable path is a `UsageError`, not a `MachineError`."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise UsageError(f"path={shown(path)}: the folder of a packed dataset is wanted, or its URL as a string")
    if is_url(path):
        store = store or Settings()
        return _native.Dataset(os.fspath(path), check_content, store.pairs, store.cache, raw)
    if not os.path.exists(path):
        is_of_url = re.match(r"[A-Za-z][A-Za-z0-9]+:/[^/]", os.fspath(path)) is not None
        help = "give a URL as a string: pathlib takes one of its slashes" if is_of_url else None
        raise UsageError("there is no such folder", os.fspath(path), help=help)
    if not os.path.isdir(path):
        folder = os.path.dirname(os.path.abspath(path))
        is_packed = os.path.exists(os.path.join(folder, "manifest.json"))
        help = f"open its folder: {folder!r}" if is_packed else _packing(path, "convert")
        raise UsageError("this is a file, and no folder of a packed dataset", os.fspath(path), help=help)
    store = store or Settings()
    try:
        return _native.Dataset(os.fspath(path), check_content, store.pairs, store.cache, raw)
    except UsageError as error:
        if error.help is None and not os.path.exists(os.path.join(path, "manifest.json")):
            with os.scandir(path) as entries:
                is_shards = any(entry.name.endswith(_SHARDS) for entry in itertools.islice(entries, 1000))
            error.help = _packing(path, "convert" if is_shards else "pack")
        raise


#: Suffixes of files that hold samples.
_SHARDS = (".tar", ".tfrecord", ".tfrecords", ".mds", ".parquet", ".rec", ".mdb", ".h5", ".hdf5", ".npz", ".arrow")


def _packing(path: PathLike, command: str) -> str:
    """Advice for images, or shards of other tools."""
    return f'shardpack.{command}({os.fspath(path)!r}, "packed") makes a dataset from it: open that one'
