"""What a loader hands out."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _native

#: The label of a sample that has none: the least int64.
NO_LABEL = -(2**63)

#: Pictures of a batch that a notebook shows.
_SHOWN = 16


class Encoded:
    """Payloads as they are stored, for decoders on a GPU. Each is a `memoryview` of the memory that it was read into, for reading alone;
    nothing is copied. They are numbered from 0, and may be sliced.

    As long as one of them is kept, so are those that were read with it: some MB. Who keeps many keeps `bytes(payload)`.
    """

    # No `Sequence`: torch's DataLoader would take it apart, down to a list of the numbers of each byte.
    __slots__ = ("_joined", "_native")

    def __init__(self, native: Optional[_native.Payloads], joined: Any = None) -> None:
        self._native, self._joined = native, joined

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """A copy of all, one behind the other, `[n] uint8`; made when it is first asked for."""
        return self._parts()[0]

    @property
    def offsets(self) -> npt.NDArray[np.uint64]:
        """Where each begins in `bytes`, and where the last ends, `[B + 1] uint64`."""
        return self._parts()[1]

    def _parts(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        if self._joined is None:
            assert self._native is not None, "one of them is there"
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
    """What is known of a batch beside its content.

    Attributes:
        epoch: The epoch that it is of.
        number: Its number among the rank's batches of the epoch.
        samples: The numbers in the dataset of its samples, `[B] uint64`.
        sources: Of a mix, which of its datasets each sample is of, `[B] uint64`.
        state: Where a run goes on that ends after this batch; what `Loader.state_dict` has then.
    """

    epoch: int
    number: int
    samples: npt.NDArray[np.uint64]
    sources: npt.NDArray[np.uint64]
    state: str
    _classes: Sequence[str]

    def _tell(self, native: _native.Batch, classes: Sequence[str]) -> None:
        self.epoch, self.number, self.state = native.epoch, native.number, native.state
        self.samples, self.sources = np.asarray(native.numbers), np.asarray(native.sources)
        self._classes = classes


class Batch(tuple[Any, ...], _About):
    """`(images, labels)`: a tuple, with what is known of the batch as attributes.

    The memory is the caller's for as long as any array, tensor or view of it lives: it is used for another batch only after the
    last one is gone. A batch that is kept is never overwritten.
    """

    def _repr_html_(self) -> Optional[str]:
        return _pictures(self[0], self[1], self._classes) if len(self) == 2 and hasattr(self, "_classes") else None


class NamedBatch(dict[str, Any], _About):
    """`{"image": …, "label": …, component: …}`: a dict, with what is known of the batch as attributes. Its memory is as that of
    `Batch`."""

    def _repr_html_(self) -> Optional[str]:
        if "image" not in self or "label" not in self or not hasattr(self, "_classes"):
            return None
        return _pictures(self["image"], self["label"], self._classes)


def _pictures(images: Any, labels: Any, classes: Sequence[str]) -> Optional[str]:
    """The first images of a batch, with their classes."""
    if isinstance(images, Encoded):
        shown: Iterable[tuple[str, bytes]] = (_kind(bytes(one)) for one in images[:_SHOWN])
    else:
        pixels = np.asarray(images[:_SHOWN])
        if pixels.ndim != 4:
            return None
        shown = (("png", png(one)) for one in _levels(pixels))
    names = [class_name(classes, int(label)) for label in labels[:_SHOWN]]
    return figures(shown, names) + f"<p>{len(labels)} samples</p>"


def class_name(classes: Sequence[str], label: int) -> str:
    """The name of a class, or its number where it has none."""
    if label == NO_LABEL:
        return ""
    return classes[label] if 0 <= label < len(classes) else str(label)


def figures(images: Iterable[tuple[str, bytes]], names: Sequence[str]) -> str:
    """HTML of images, by their type, over their names."""

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
    """`[H, W, 3] uint8` of each, with floats spread from least to most."""
    for one in pixels:
        image = one.transpose(1, 2, 0) if one.shape[0] == 3 else one
        if image.dtype != np.uint8:
            image = image.astype(np.float32)
            least, most = float(image.min()), float(image.max())
            image = ((image - least) / max(most - least, 1e-6) * 255).astype(np.uint8)
        yield np.ascontiguousarray(image)


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """`[H, W, 3] uint8` as a PNG."""
    height, width = image.shape[:2]

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
