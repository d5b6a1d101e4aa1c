"""Packed datasets as sources of Ray Data, whose tasks read ranges of samples."""

from __future__ import annotations

import functools
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow
import ray.data
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from . import _native
from ._stores import Settings, Store, absolute, open_native
from .batch import NO_LABEL
from .dataset import _value
from .errors import DataError, UsageError
from .running import PathLike

#: Columns of all samples with their types; `image` exists only if a payload is an image.
_COLUMNS = {
    "number": pyarrow.int64(),
    "key": pyarrow.string(),
    "label": pyarrow.int64(),
    "class": pyarrow.string(),
    "path": pyarrow.string(),
    "image": pyarrow.binary(),
}
#: Columns from the indexes, for which no shard is read.
_INDEXED = {"number", "key", "label", "class", "path"}
#: Approximate memory of one row of these columns.
_ROW_BYTES = 64
#: Shard bytes per block of a task; Ray joins and splits blocks according to its settings.
_BLOCK_BYTES = 32 << 20
#: Rows per block if no shard is read.
_BLOCK_ROWS = 1 << 16


def dataset(
    path: PathLike,
    *,
    columns: Sequence[str] | None = None,
    check_content: bool = False,
    store: Store | None = None,
    **options: Any,
) -> ray.data.Dataset:
    """Return a packed dataset as a Ray dataset with one row per sample.

    Each task reads consecutive samples in large reads: whole shards if there are at least as many shards as tasks. Ray
    knows rows and approximate bytes of each task in advance. Rows come in about stored order, which is shuffled unless
    packed with `order="source"`.

    Columns:

    - `number` and `key`.
    - `label` and `class`, null for samples without a label.
    - `path` in the source, with U+FFFD for bytes that are not UTF-8.
    - `image`, the payload as stored, if the dataset holds images.
    - Components by name, as in `Dataset`, null if missing. A component named like another column gets a `_` at the end.

    Args:
        path: Folder that all nodes see, or URL. Splits are read one by one: give the folder of one split.
        columns: Columns to read, in this order; `None` for all. Without `image` and components, no shard is read.
        check_content: Compare each payload with its hash. Data from a URL is always checked.
        store: Object store settings for a URL, as in `Dataset`; tasks carry them to the nodes. Each node uses its own
            environment.
        options: Options of `ray.data.read_datasource`: `override_num_blocks`, `concurrency`, `num_cpus`, …

    Returns:
        The Ray dataset.

    Raises:
        UsageError: If there is no dataset at `path`, or several, which the error names; or if a column is unknown.
        DataError: If the manifest is damaged. Ray raises errors of shards when it reads them.

    Example:
        import shardpack.ray

        source = shardpack.ray.dataset("packed", columns=["number", "label"])
        print(source.count(), source.columns())  # 300 ['number', 'label']
    """
    return ray.data.read_datasource(Source(path, columns, check_content, store), **options)


class Source(Datasource):
    """Datasource of a packed dataset, for `ray.data.read_datasource`; arguments as in `dataset`.

    Example:
        import ray.data
        import shardpack.ray

        print(ray.data.read_datasource(shardpack.ray.Source("packed")).count())  # 300
    """

    def __init__(
        self,
        path: PathLike,
        columns: Sequence[str] | None = None,
        check_content: bool = False,
        store: Store | None = None,
    ) -> None:
        super().__init__()
        self._store = Settings.of(store)
        opened = open_native(path, check_content, self._store, raw=True)
        # The nodes have other working folders.
        self._path = absolute(path)
        self._check_content = check_content
        manifest = _manifest(opened)
        self._id = manifest["id"]
        self._shards = [(shard["file"], shard["samples"], shard["bytes"]) for shard in manifest["shards"]]
        # Shards may be compressed; Ray needs the size in memory.
        self._inflated = max(1.0, manifest["payload_bytes"] / max(1, manifest["shard_bytes"]))
        there = _names(opened)
        self._columns = list(there) if columns is None else list(columns)
        for name in self._columns:
            if name not in there:
                raise UsageError(f"no column {name!r}: there are {', '.join(there)}", os.fspath(path))

    def get_name(self) -> str:
        """Return the name of the tasks."""
        return "Shardpack"

    def _bytes(self, samples: int, shard_bytes: float) -> int:
        """Memory that rows take, in bytes."""
        is_read = not _INDEXED.issuperset(self._columns)
        return int(samples * _ROW_BYTES + (shard_bytes * self._inflated if is_read else 0))

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the approximate memory of all rows, in bytes."""
        return self._bytes(sum(samples for _, samples, _ in self._shards), sum(bytes for _, _, bytes in self._shards))

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return read tasks for consecutive ranges of samples.

        Args:
            parallelism: Number of tasks; fewer if there are fewer samples, or if shards do not divide evenly.
            per_task_row_limit: Row limit that Ray applies to each task.
            data_context: Ignored.

        Returns:
            The tasks.
        """
        firsts = [0, *accumulate(samples for _, samples, _ in self._shards)]
        schema = None
        if set(self._columns) <= _COLUMNS.keys():
            schema = pyarrow.schema([(name, _COLUMNS[name]) for name in self._columns])
        tasks = []
        for first, end in ranges([shard[1:] for shard in self._shards], parallelism):
            files, shard_bytes = [], 0.0
            shard = bisect_left(firsts, first + 1) - 1
            while shard < len(self._shards) and firsts[shard] < end:
                file, samples, bytes = self._shards[shard]
                files.append(os.path.join(self._path, file))
                read = min(end, firsts[shard + 1]) - max(first, firsts[shard])
                shard_bytes += bytes * read / max(1, samples)
                shard += 1
            about = BlockMetadata(
                num_rows=end - first,
                size_bytes=self._bytes(end - first, shard_bytes),
                input_files=tuple(files),
                exec_stats=None,
            )
            function = functools.partial(
                _read, self._path, self._store, self._id, self._check_content, tuple(self._columns), first, end
            )
            tasks.append(ReadTask(function, about, schema=schema, per_task_row_limit=per_task_row_limit))
        return tasks


def ranges(shards: Sequence[tuple[int, int]], parts: int) -> list[tuple[int, int]]:
    """Cut `shards` (samples and bytes of each) into at most `parts` ranges of about equal bytes.

    Cuts between shards if there are enough. Returns first sample and end of each range, none empty.
    """
    samples = [0, *accumulate(one for one, _ in shards)]
    bytes = [0, *accumulate(one for _, one in shards)]
    parts = max(1, parts)
    cuts = [0]
    for part in range(1, parts):
        wanted = bytes[-1] * part / parts
        after = bisect_left(bytes, wanted)
        if bytes[after] == wanted or after == 0:
            cuts.append(samples[after])
            continue
        share = (wanted - bytes[after - 1]) / (bytes[after] - bytes[after - 1])
        if len(shards) >= parts:
            share = round(share)
        cuts.append(samples[after - 1] + int(share * shards[after - 1][0]))
    cuts.append(samples[-1])
    return [(first, end) for first, end in zip(cuts, cuts[1:]) if first < end]


def _manifest(opened: _native.Dataset) -> dict[str, Any]:
    import json

    manifest: dict[str, Any] = json.loads(opened.manifest())
    return manifest


def _component_columns(opened: _native.Dataset) -> dict[str, str]:
    """Components that have a column, by the name of the column."""
    components = opened.components[1:] if opened.holds_images else opened.components
    return {name + "_" if name in _COLUMNS else name: name for name in components if name != "cls"}


def _names(opened: _native.Dataset) -> list[str]:
    named = [name for name in _COLUMNS if name != "image" or opened.holds_images]
    return [*named, *_component_columns(opened)]


@functools.lru_cache(maxsize=8)
def _opened(
    path: str, store: Settings, identity: str, check_content: bool, _version: tuple[int, int, int]
) -> _native.Dataset:
    """The dataset, opened once per process and version of its manifest."""
    opened = open_native(path, check_content, store, raw=True)
    if (found := _manifest(opened)["id"]) != identity:
        raise DataError(
            f"another dataset: its id is {found}, and where the tasks were made it was {identity}",
            path,
            help="make the Ray dataset anew; if its folder is another one on this node, all nodes have to see the same",
        )
    return opened


def _read(
    path: str, store: Settings, identity: str, check_content: bool, columns: tuple[str, ...], first: int, end: int
) -> Iterator[pyarrow.Table]:
    """Yield the samples of a range as blocks: the work of a task."""
    try:
        about = os.stat(os.path.join(path, "manifest.json"))
        version = about.st_ino, about.st_mtime_ns, about.st_size
    except OSError:
        version = 0, 0, 0
    opened = _opened(path, store, identity, check_content, version)
    if _INDEXED.issuperset(columns):
        for at in range(first, end, _BLOCK_ROWS):
            yield _indexed(opened, columns, at, min(end, at + _BLOCK_ROWS))
        return
    while first < end:
        samples = opened.samples(first, end, _BLOCK_BYTES)
        yield _table(opened, columns, samples)
        first += len(samples)


def _path(path: str) -> str:
    """A path as Arrow text."""
    return os.fsencode(path).decode(errors="replace")


def _indexed(opened: _native.Dataset, columns: Iterable[str], first: int, end: int) -> pyarrow.Table:
    found: dict[str, Any] = {}
    labels = np.asarray(opened.labels(first, end)) if {"label", "class"} & set(columns) else np.empty(0, np.int64)
    for name in columns:
        if name == "number":
            found[name] = np.arange(first, end)
        elif name == "key":
            found[name] = opened.keys(first, end)
        elif name == "path":
            found[name] = [_path(path) for path in opened.paths(first, end)]
        elif name == "label":
            found[name] = pyarrow.array(labels, mask=labels == NO_LABEL)
        else:
            classes = dict(enumerate(opened.classes))
            found[name] = [classes.get(label) for label in labels.tolist()]
    return pyarrow.table({name: pyarrow.array(found[name], _COLUMNS[name]) for name in columns})


def _table(opened: _native.Dataset, columns: Iterable[str], samples: Sequence[_native.Sample]) -> pyarrow.Table:
    components = _component_columns(opened)
    of_sample = {"class": "class_name", "image": "bytes"}
    table = {}
    for name in columns:
        if name in components:
            values = [_value(dict(sample.components).get(components[name])) for sample in samples]
            # Ray's own types, for arrays and for values without an Arrow type.
            table[name] = BlockAccessor.batch_to_arrow_block({name: values})[name]
        else:
            plain = [getattr(sample, of_sample.get(name, name)) for sample in samples]
            plain = [_path(path) for path in plain] if name == "path" else plain
            table[name] = pyarrow.array(plain, _COLUMNS[name])
    return pyarrow.table(table)
