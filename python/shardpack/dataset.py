"""Random access to a packed dataset, as a sequence of samples."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._payload import Payload, pictures
from ._stores import Settings, Store, absolute, open_native
from .errors import UsageError
from .running import PathLike

#: Number of samples in a notebook.
_SHOWN = 12


@dataclass(frozen=True, repr=False)
class Sample(Payload):
    """One sample of a dataset.

    Attributes:
        number: Number of the sample in the dataset, from 0.
        key: Key of the sample.
        label: Label of the class, or `None`.
        class_name: Name of the class, or `None`.
        path: Path in the source; bytes that are not UTF-8 are decoded as by `os.fsdecode`.
        bytes: Payload, byte for byte as it was packed.
        components: Other components by name, without the label: str, parsed JSON, int, float, numpy arrays, or bytes.
        size: Width and height in pixels from the image header; `(0, 0)` if unknown.
        kind: Type of the payload, detected from its first bytes: `jpeg`, `png`, …

    Example:
        sample = shardpack.Dataset("packed")[0]
        print(sample.number, sample.kind)  # 0 jpeg
        print(sample.image().shape[:2] == sample.size[::-1])  # True
    """

    number: int
    key: str
    label: int | None
    class_name: str | None
    path: str
    bytes: bytes
    components: dict[str, Any]
    size: tuple[int, int]
    kind: str

    def __repr__(self) -> str:
        # Payload and components may be megabytes.
        told = [f"number={self.number}", f"key={self.key!r}", f"label={self.label}", f"class_name={self.class_name!r}"]
        told += [f"kind={self.kind!r}", f"size={self.size}", f"{len(self.bytes)} bytes"]
        told += [f"components: {', '.join(self.components)}"] * bool(self.components)
        return f"Sample({', '.join(told)})"


class Dataset(Sequence[Any]):
    """Random access to the samples of a packed dataset: `ds[i]`, `ds[10:20]`, `ds[-1]`, `len(ds)`.

    Items are in stored order: each a `Sample`, or `(transform(image), label)` with a `transform`. Samples are read one
    by one; `Loader` reads in large pieces, for training.

    A dataset can be pickled, shared by threads, and used on both sides of a fork. It works as a map-style dataset of
    torch's `DataLoader`, as a source of Grain, and with Hugging Face's `from_generator`.

    Args:
        path: Folder of the dataset, or its URL as a string: `s3://`, `gs://`, `az://`, `abfss://`, `http://` or
            `https://`.
        transform: Function of a `PIL.Image` in RGB. Items are then `(transform(image), label)`, as in torchvision's
            `ImageFolder`.
        target_transform: Function of the label; used only with `transform`.
        check_content: Compare each payload with its hash. Data from a URL is always checked.
        raw: Components that are files are bytes. Otherwise `.txt` is `str`, and `.json` is parsed.
        store: Object store settings for a URL, in addition to the environment, such as `{"endpoint": "http://…"}`;
            listed in docs/how-to/training.md. Pickles of the dataset contain them.
        cache_dir: Local folder that keeps downloaded data of a URL, shared by all processes; see `Loader`.
        cache_bytes: Limit of the cache, in bytes or as `"100GiB"`; required with `cache_dir`.

    Raises:
        UsageError: If there is no dataset at `path`, or several, which the error names; or if a setting is invalid.
        DataError: If the manifest is damaged.
        MachineError: If the folder or the server cannot be read.

    Example:
        dataset = shardpack.Dataset("packed")
        print(len(dataset), dataset.find(dataset[7].key))  # 300 7
        print(dataset.classes[dataset[0].label] == dataset[0].class_name)  # True
    """

    def __init__(
        self,
        path: PathLike,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        check_content: bool = False,
        raw: bool = False,
        store: Store | None = None,
        cache_dir: PathLike | None = None,
        cache_bytes: int | str | None = None,
    ) -> None:
        settings = Settings.of(store).with_cache(cache_dir, cache_bytes)
        self._native = open_native(path, check_content, settings, raw)
        self._given = os.fspath(path), transform, target_transform, (check_content, raw), settings
        self.path, self.transform, self.target_transform = os.fspath(path), transform, target_transform

    def __reduce__(self) -> tuple[Any, ...]:
        path, transform, target_transform, flags, settings = self._given
        cache = settings.cache or (None, None)
        return _opened, (absolute(path), transform, target_transform, flags, settings.mapping(), *cache)

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._native)

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> list[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        """Return one item by number, from the end if negative, or a list for a slice."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        sample = self.sample(number)
        if self.transform is None:
            return sample
        label = sample.label if self.target_transform is None else self.target_transform(sample.label)
        return self.transform(sample.pil()), label

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """Batched access for torch's `DataLoader`: `get_many`."""
        collate = sys.modules.get("torch.utils.data._utils.collate")
        if self.transform is None and collate is not None:
            # The default collate function would only complain that a sample is no tensor.
            collate.default_collate_fn_map.setdefault(Sample, _refuse)
        return self.get_many(numbers)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def get_many(self, numbers: Iterable[int]) -> list[Any]:
        """Read several items in the order of the shards.

        Args:
            numbers: Sample numbers; negative ones count from the end.

        Returns:
            The items in the order of `numbers`.

        Raises:
            IndexError: If a number is out of range.
            DataError: If a shard is damaged.
        """
        wanted = [range(len(self))[int(number)] for number in numbers]
        found = {number: self[number] for number in sorted(set(wanted))}
        return [found[number] for number in wanted]

    def sample(self, number: int) -> Sample:
        """Read one sample, regardless of `transform`.

        Args:
            number: Number of the sample; negative ones count from the end.

        Returns:
            The sample.

        Raises:
            IndexError: If the number is out of range.
            DataError: If the shard is damaged.
        """
        native = self._native.sample(int(number))
        components = {name: _value(value) for name, value in native.components if name != "cls"}
        return Sample(
            native.number,
            native.key,
            native.label,
            native.class_name,
            native.path,
            native.bytes,
            components,
            native.size,
            native.kind,
        )

    def find(self, key: str) -> int:
        """Look up a sample by its key.

        Args:
            key: Key of the sample.

        Returns:
            Number of the sample.

        Raises:
            KeyError: If no sample has this key.
        """
        number = self._native.find(key)
        if number is None:
            raise KeyError(key)
        return number

    # Columns of the indexes, which read no shard.

    @property
    def name(self) -> str:
        """Name of the dataset, used in the names of its shards."""
        return self._native.name

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest, parsed (docs/reference/manifest.md)."""
        manifest: dict[str, Any] = json.loads(self._native.manifest())
        return manifest

    @property
    def classes(self) -> list[str]:
        """Class names in the order of their labels."""
        return self._native.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Labels by class name, as in torchvision's `ImageFolder`."""
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Labels, `[N] int64`; `NO_LABEL` for samples without a label."""
        return np.asarray(self._native.labels())

    @property
    def targets(self) -> list[int]:
        """Labels as a list, as in torchvision's `ImageFolder`."""
        return [int(label) for label in self.labels]

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Lengths of the payloads in bytes, `[N] uint64`."""
        return np.asarray(self._native.sizes())

    @property
    def image_sizes(self) -> npt.NDArray[np.uint32]:
        """Width and height in pixels from the image headers, `[N, 2] uint32`; 0 if unknown."""
        return np.asarray(self._native.image_sizes())

    @property
    def hashes(self) -> npt.NDArray[np.uint8]:
        """Content hashes, XXH3-128 big-endian, `[N, 16] uint8`."""
        return np.asarray(self._native.hashes())

    @property
    def keys(self) -> list[str]:
        """Keys in the order of the samples."""
        return self._native.keys()

    @property
    def paths(self) -> list[str]:
        """Paths in the source, in the order of the samples."""
        return self._native.paths()

    def to_arrow(self) -> Any:
        """Return the indexes as a pyarrow table, without reading a shard.

        Returns:
            One row per sample: `key`, `path` and `hash` (both binary), `label` (null if missing), `bytes`, `width`,
            `height`.
        """
        import pyarrow

        labels = self.labels
        width, height = self.image_sizes.T
        return pyarrow.table(
            {
                "key": self.keys,
                "path": [os.fsencode(path) for path in self.paths],
                "label": pyarrow.array(labels, mask=labels == -(2**63)),
                "bytes": self.sizes,
                "width": np.ascontiguousarray(width),
                "height": np.ascontiguousarray(height),
                "hash": [bytes(one) for one in self.hashes],
            }
        )

    def __repr__(self) -> str:
        return f"Dataset({self.path!r}: {len(self)} samples, {len(self.classes)} classes)"

    def _repr_html_(self) -> str:
        shown = pictures(self.sample(number) for number in range(min(len(self), _SHOWN)))
        return f"<p>{self.name}: {len(self)} samples, {len(self.classes)} classes</p>{shown}"


def _refuse(*_batch: Any, **_options: Any) -> Any:
    raise UsageError(
        "samples of a Dataset without transform are no tensors that a DataLoader puts together",
        help="Dataset(path, transform=…) gives (image, label); collate_fn=list gives the samples as they are",
    )


def _opened(
    path: str,
    transform: Any,
    target_transform: Any,
    flags: tuple[bool, bool],
    store: Store,
    cache_dir: str | None,
    cache_bytes: int | None,
) -> Dataset:
    options: dict[str, Any] = {"store": store, "cache_dir": cache_dir, "cache_bytes": cache_bytes}
    return Dataset(path, transform, target_transform, check_content=flags[0], raw=flags[1], **options)


def _value(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, _native.Array) else value
