"""Batches of a loader, and the pictures that notebooks show for them."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._cropped import Cropped

#: Label of samples without a label: -2^63, the smallest int64.
NO_LABEL = -(2**63)

#: Number of pictures of a batch in a notebook.
_SHOWN = 16


class Encoded:
    """Sequence of stored payloads, for decoders on a GPU.

    Each payload is a read-only `memoryview` of the buffer that it was read into, without a copy. Payloads are numbered
    from 0; a slice is a list.

    A kept payload keeps the whole read alive, some MB; to keep many, copy them with `bytes(payload)`.

    Example:
        encoded, labels = next(iter(shardpack.Loader("packed", 64)))
        print(len(encoded), bytes(encoded[0][:2]))  # 64 b'\\xff\\xd8'
        print(encoded.offsets.shape, encoded.bytes.dtype)  # (65,) uint8
    """

    # Not a `Sequence`: torch's DataLoader would convert each payload to a list of integers.
    __slots__ = ("_joined", "_native")

    def __init__(self, native: Optional[_native.Payloads], joined: Any = None) -> None:
        self._native, self._joined = native, joined

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """All payloads, copied one after the other on first use: `[n] uint8`."""
        return self._parts()[0]

    @property
    def offsets(self) -> npt.NDArray[np.uint64]:
        """Start of each payload in `bytes`, and the end of the last: `[B + 1] uint64`."""
        return self._parts()[1]

    def _parts(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        if self._joined is None:
            assert self._native is not None, "only one is there"
            self._joined = tuple(map(np.asarray, self._native.joined()))
        parts: tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]] = self._joined
        return parts

    def __len__(self) -> int:
        return len(self._joined[1]) - 1 if self._native is None else len(self._native)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        at = range(len(self))[number]
        if self._native is not None:
            return np.asarray(self._native.payload(at)).data
        payloads, offsets = self._joined
        return payloads[int(offsets[at]) : int(offsets[at + 1])].data

    def __iter__(self) -> Iterator[memoryview]:
        return map(self.__getitem__, range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoded, (None, self._parts())

    def __repr__(self) -> str:
        return f"Encoded({len(self)} payloads)"


class _About:
    """Attributes of a batch; see `Batch`."""

    epoch: int
    number: int
    samples: npt.NDArray[np.uint64]
    sources: npt.NDArray[np.uint64]
    state: str
    boxes_cropped: Union[Cropped, list[Optional[Cropped]], None]
    _classes: Sequence[str]

    def _tell(
        self, native: _native.Batch, classes: Sequence[str], cropped: Union[Cropped, list[Optional[Cropped]], None]
    ) -> None:
        self.boxes_cropped = cropped
        self.epoch, self.number, self.state = native.epoch, native.number, native.state
        self.samples, self.sources = np.asarray(native.numbers), np.asarray(native.sources)
        self._classes = classes


class Batch(tuple[Any, ...], _About):
    """Batch of a loader: the tuple `(images, labels)`, with more as attributes.

    The memory belongs to the caller while the batch, or any array, tensor or view over it, is alive; only then is it
    reused. A kept batch is never overwritten. Copying the tuple, for example to a GPU, drops the attributes.

    Attributes:
        epoch: Number of the epoch, from 0.
        number: Number of the batch among those of this rank in the epoch, from 0.
        samples: Sample numbers in the dataset, numpy `[B] uint64`.
        sources: Part of a mix that each sample comes from, numpy `[B] uint64`.
        boxes_cropped: With a transform, the cut of each image: `Cropped`, which moves boxes and points; with several views a
            list of these. `None` with `RandAugment` and `TrivialAugmentWide`, which move pixels further.
        state: JSON of the state after this batch: `{"shardpack": json.loads(batch.state)}` is a `Loader.state_dict`.

    Example:
        batch = next(iter(shardpack.Loader("packed", 64, transform="train")))
        images, labels = batch
        print(tuple(images.shape), tuple(labels.shape))  # (64, 3, 224, 224) (64,)
        print(batch.epoch, batch.number, len(batch.samples))  # 0 0 64
    """

    def _repr_html_(self) -> Optional[str]:
        return _pictures(self[0], self[1], self._classes) if len(self) == 2 and hasattr(self, "_classes") else None


class NamedBatch(dict[str, Any], _About):
    """Batch of a loader as a dict: `image`, `label`, and components by name.

    Attributes and memory are those of `Batch`. Datasets without images have no `image` unless `sample_transform` makes
    one. With components, `label` is missing if there are neither classes nor labels.

    Example:
        batch = next(iter(shardpack.Loader("packed", 64, transform="eval", as_dict=True)))
        print(sorted(batch), len(batch.samples))  # ['image', 'label'] 64
    """

    def _repr_html_(self) -> Optional[str]:
        if "image" not in self or "label" not in self or not hasattr(self, "_classes"):
            return None
        return _pictures(self["image"], self["label"], self._classes)


def _pictures(images: Any, labels: Any, classes: Sequence[str]) -> Optional[str]:
    """HTML of the first images of a batch with their classes; of several views, the first."""
    if isinstance(images, list) and images and not isinstance(images[0], list) and hasattr(images[0], "ndim"):
        images = images[0] if images[0].ndim == 4 else images
    if isinstance(images, Encoded):
        shown: Iterable[tuple[str, bytes]] = (_kind(bytes(one)) for one in images[:_SHOWN])
    else:
        pixels = np.asarray(images[:_SHOWN])
        if pixels.ndim != 4:
            return None
        shown = (("png", png(one)) for one in _levels(pixels))
    names = [_caption(classes, label) for label in np.asarray(labels[:_SHOWN])]
    return figures(shown, names) + f"<p>{len(labels)} samples</p>"


def class_name(classes: Sequence[str], label: int) -> str:
    """Return the name of a class, its label as text if it has none, or `""` for `NO_LABEL`."""
    if label == NO_LABEL:
        return ""
    return classes[label] if 0 <= label < len(classes) else str(label)


def _caption(classes: Sequence[str], label: Any) -> str:
    """The class of an image, or the classes of a mixed one with their shares."""
    if label.ndim == 0:
        return class_name(classes, int(label))
    mixed = np.flatnonzero(label)
    return ", ".join(f"{class_name(classes, int(one))} {label[one]:.2f}" for one in mixed[np.argsort(-label[mixed])])


def figures(images: Iterable[tuple[str, bytes]], names: Sequence[str]) -> str:
    """Return HTML of images, given as pairs of type (`"jpeg"`) and encoded bytes, with escaped captions."""

    def one(kind: str, content: bytes, name: str) -> str:
        data = base64.b64encode(content).decode()
        return (
            '<figure style="display:inline-block;margin:4px;text-align:center">'
            f'<img style="height:96px" src="data:image/{kind};base64,{data}">'
            f"<figcaption>{html.escape(name)}</figcaption></figure>"
        )

    return "".join(one(kind, content, name) for (kind, content), name in zip(images, names))


def _kind(content: bytes) -> tuple[str, bytes]:
    kind = "png" if content.startswith(b"\x89PNG") else "gif" if content.startswith(b"GIF8") else "jpeg"
    return kind, content


def _levels(pixels: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.uint8]]:
    """Each image as `[H, W, 3] uint8`; floats are scaled from minimum to maximum."""
    for one in pixels:
        image = one.transpose(1, 2, 0) if one.shape[0] == 3 else one
        if image.dtype != np.uint8:
            image = image.astype(np.float32)
            least, most = float(image.min()), float(image.max())
            image = ((image - least) / max(most - least, 1e-6) * 255).astype(np.uint8)
        yield np.ascontiguousarray(image)


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """Encode an image, `[H, W, 3] uint8`, RGB, as PNG."""
    height, width = image.shape[:2]

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
