"""Random access: a packed dataset as a sequence of samples."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._stores import Settings, Store, absolute, open_native
from .batch import _kind, figures
from .errors import UsageError
from .running import PathLike

#: Samples that a notebook shows.
_SHOWN = 12


@dataclass(frozen=True, repr=False)
class Sample:
    """A sample.

    Attributes:
        number: Its number in the dataset.
        key: Its key.
        label: Number of its class; `None` where it has none.
        class_name: Name of its class.
        path: Path that it had in the source; what is no UTF-8 as `os.fsdecode` has it.
        bytes: The payload, byte for byte as it was packed.
        components: What else it has, by name, beside the label: bytes, str, what JSON says, int, float, or a numpy array.
        size: Width and height in pixels as the image's headers say; `(0, 0)` where they are not known.
        kind: Kind of the payload by its first bytes: `jpeg`, `png`, …
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

    def image(self, upright: bool = False) -> npt.NDArray[np.uint8]:
        """Its pixels, `[H, W, 3] uint8`, red, green, blue; turned as its Exif orientation says where `upright`.

        Raises:
            DataError: When it is no image, or damaged.
        """
        return np.asarray(_native.decode(self.bytes, upright))

    def pil(self) -> Any:
        """As an image of Pillow in RGB, as torchvision's ImageFolder has it."""
        from PIL import Image

        return Image.open(io.BytesIO(self.bytes)).convert("RGB")

    def __repr__(self) -> str:
        # Payload and components may be megabytes.
        told = [f"number={self.number}", f"key={self.key!r}", f"label={self.label}", f"class_name={self.class_name!r}"]
        told += [f"kind={self.kind!r}", f"size={self.size}", f"{len(self.bytes)} bytes"]
        told += [f"components: {', '.join(self.components)}"] * bool(self.components)
        return f"Sample({', '.join(told)})"

    def _repr_html_(self) -> str:
        return figures([_kind(self.bytes)], [self.class_name or self.key])


class Dataset(Sequence[Any]):
    """A packed dataset, by the numbers of its samples: `ds[i]`, `ds[10:20]`, `ds[-1]`, `len(ds)`.

    It reads each sample by itself: for training in large reads there is `Loader`. It can be pickled, used by threads, and on both
    sides of a fork, so that it works as a map-style dataset of torch's DataLoader, of Grain, and of Hugging Face's `from_generator`.

    Args:
        path: Its folder, or the URL of one as a string: `s3://`, `gs://`, `az://`, `abfss://`, `http://` or `https://`.
        transform: With it, `ds[i]` is `(transform(image), label)`, as of torchvision's ImageFolder; the image is Pillow's, in RGB.
        target_transform: What is made of labels; only with `transform`.
        check_content: Compare each payload with its hash. What comes from a URL always is.
        store: Of a URL, settings of its store beside what the environment says, names with values: `{"endpoint": "http://…"}`.
            docs/how-to/training.md lists them. They go along where the dataset is pickled.
        cache_dir: Of a URL, a folder of this machine that keeps what was read, for all processes that name it; see `Loader`.
        cache_bytes: How much may be in it, in bytes or as `"100GiB"`.

    Raises:
        UsageError: When there is no dataset, or several, which the error names; or no such setting.
        DataError: When its manifest is damaged.
    """

    def __init__(
        self,
        path: PathLike,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        *,
        check_content: bool = False,
        store: Store | None = None,
        cache_dir: PathLike | None = None,
        cache_bytes: int | str | None = None,
    ) -> None:
        settings = Settings.of(store).with_cache(cache_dir, cache_bytes)
        self._native = open_native(path, check_content, settings)
        self._given = os.fspath(path), transform, target_transform, check_content, settings
        self.path, self.transform, self.target_transform = os.fspath(path), transform, target_transform

    def __reduce__(self) -> tuple[Any, ...]:
        path, transform, target_transform, check_content, settings = self._given
        cache = settings.cache or (None, None)
        return _opened, (absolute(path), transform, target_transform, check_content, settings.mapping(), *cache)

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> list[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        sample = self.sample(number)
        if self.transform is None:
            return sample
        label = sample.label if self.target_transform is None else self.target_transform(sample.label)
        return self.transform(sample.pil()), label

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        """What torch's DataLoader asks for where it is there."""
        collate = sys.modules.get("torch.utils.data._utils.collate")
        if self.transform is None and collate is not None:
            # Of what its own function for batches, if it has been given no other, says nothing but that it is no tensor.
            collate.default_collate_fn_map.setdefault(Sample, _refuse)
        return self.get_many(numbers)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def get_many(self, numbers: Iterable[int]) -> list[Any]:
        """Several, in the order of `numbers`: read in that of the shards."""
        wanted = [range(len(self))[int(number)] for number in numbers]
        found = {number: self[number] for number in sorted(set(wanted))}
        return [found[number] for number in wanted]

    def sample(self, number: int) -> Sample:
        """A sample, whatever `transform` is.

        Raises:
            IndexError: When there is none of this number.
            DataError: When its shard is damaged.
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
        """The number of the sample with this key.

        Raises:
            KeyError: When there is none.
        """
        number = self._native.find(key)
        if number is None:
            raise KeyError(key)
        return number

    # What the indexes say, without touching a shard.

    @property
    def name(self) -> str:
        """Name of the dataset, which its shards are called after."""
        return self._native.name

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest (docs/reference/manifest.md)."""
        manifest: dict[str, Any] = json.loads(self._native.manifest())
        return manifest

    @property
    def classes(self) -> list[str]:
        """Names of the classes in the order of their labels."""
        return self._native.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Labels by name, as torchvision's ImageFolder has them."""
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """`[N] int64`; of samples without a label `batch.NO_LABEL`."""
        return np.asarray(self._native.labels())

    @property
    def targets(self) -> list[int]:
        """The labels as a list, as torchvision's ImageFolder has them."""
        return [int(label) for label in self.labels]

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Lengths of the payloads in bytes, `[N] uint64`."""
        return np.asarray(self._native.sizes())

    @property
    def image_sizes(self) -> npt.NDArray[np.uint32]:
        """Width and height in pixels as the images' headers say, `[N, 2] uint32`."""
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
        """Paths in the source in the order of the samples."""
        return self._native.paths()

    def to_arrow(self) -> Any:
        """All of these columns as a table of pyarrow."""
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
        shown = [self.sample(number) for number in range(min(len(self), _SHOWN))]
        shown = [sample for sample in shown if sample.kind in ("jpeg", "png", "gif", "webp", "bmp")]
        pictures = figures(
            [_kind(sample.bytes) for sample in shown], [sample.class_name or sample.key for sample in shown]
        )
        return f"<p>{self.name}: {len(self)} samples, {len(self.classes)} classes</p>{pictures}"


def _refuse(*_batch: Any, **_options: Any) -> Any:
    raise UsageError(
        "samples of a Dataset without transform are no tensors that a DataLoader puts together",
        help="Dataset(path, transform=…) gives (image, label); collate_fn=list gives the samples as they are",
    )


def _opened(
    path: str,
    transform: Any,
    target_transform: Any,
    check_content: bool,
    store: Store,
    cache_dir: str | None,
    cache_bytes: int | None,
) -> Dataset:
    options: dict[str, Any] = {"store": store, "cache_dir": cache_dir, "cache_bytes": cache_bytes}
    return Dataset(path, transform, target_transform, check_content=check_content, **options)


def _value(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, _native.Array) else value
