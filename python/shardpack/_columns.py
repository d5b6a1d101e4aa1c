"""Columns of rows: how a value of Python becomes the content of a file in a tar.

A column has one type in all rows: the type in `columns`, or else the type of its first value. Missing values are `None`.
"""

from __future__ import annotations

import functools
import io
import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._sizes import shown
from .errors import UsageError

#: Encoded images, and the types of a column of them.
_IMAGES = {"image": None, "jpeg": "JPEG", "png": "PNG", "webp": "WEBP"}
_QUALITY = {"jpeg": 95, "webp": 90}
#: Types of all other columns, besides dtypes and extensions.
_OTHERS = ("array", "bytes", "class", "json", "text")
_EXTENSIONS = {"text": "txt", "json": "json", "bytes": "bin"}
#: Extension of labels.
CLASS = "cls"
#: Names of a column, which are part of the name of a file in a tar.
_NAME = re.compile(r"[a-z0-9_-]+")
#: Longest name of a component in bytes, with its extension.
_LONGEST = 32
#: First bytes of encoded images.
_MAGIC = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|RIFF....WEBP|II\*\0|MM\0\*|BM....\0\0\0\0", re.DOTALL)
#: A dtype with a shape.
_SHAPE = re.compile(r"([a-z0-9_]+)\[((?:\s*(?:n|\?|[0-9]{1,9})\s*(?:,|$))*(?:\s*(?:n|\?|[0-9]{1,9})\s*)?)\]")
#: Text that names a number, and would become one as a label.
_NUMBER = re.compile(r"[+-]?[0-9]+")

Content = bytes


def name_of(name: Any) -> str:
    """Return the name of a column in a tar, in lower case as webdataset reads names."""
    found = name.lower() if isinstance(name, str) else ""
    if not _NAME.fullmatch(found) or found.startswith("__"):
        raise UsageError(
            f"column {shown(name)}: names have letters, digits, - and _", help="rename it, or leave it out of the rows"
        )
    return found


@dataclass(frozen=True)
class Column:
    """A column with its type.

    Attributes:
        name: Its name, in lower case.
        kind: Its type, as in `columns`.
        is_given: Whether the caller has chosen the type.
        member: Extension of its files.
        item: Shape of an item of its first array, for empty lists; `None` if not known.
    """

    name: str
    kind: str
    is_given: bool
    member: str
    item: tuple[int, ...] | None = None

    @classmethod
    def of(cls, name: str, kind: str, is_given: bool, first: Any) -> Column:
        """Return the column whose first value is `first`."""
        base, item = _base(kind), None
        if base in _IMAGES:
            member = f"{name}.{_extension(_image(kind, first))}"
        elif base == "class":
            member = CLASS
        elif base.startswith("."):
            member = name + base
        else:
            member = f"{name}.{_EXTENSIONS.get(base, 'npy')}"
            if base not in _EXTENSIONS and np.size(_plain(first)):
                item = np.shape(_plain(first))[1:]
        if len(member) > _LONGEST:
            raise UsageError(f"column {name}: {member} is longer than {_LONGEST} bytes", help="rename the column")
        return cls(name, kind, is_given, member, item)

    @classmethod
    def kept(cls, fields: dict[str, Any]) -> Column:
        """Return the column with these fields, which JSON has kept."""
        return cls(**{**fields, "item": None if fields["item"] is None else tuple(fields["item"])})

    @property
    def is_image(self) -> bool:
        """Whether the column has encoded images."""
        return _base(self.kind) in _IMAGES

    def encode(self, value: Any) -> Content:
        """Return the content of the file for `value`."""
        base = _base(self.kind)
        if base in _IMAGES:
            return _image(self.kind, value)
        encode = _ENCODERS.get(base)
        if encode is not None:
            return encode(value)
        if base.startswith("."):
            return _bytes(value)
        return _array(None if base == "array" else np.dtype(base), self, value)


def _base(kind: str) -> str:
    """A type without quality or shape."""
    return re.split(r"[:\[]", kind, maxsplit=1)[0]


def _axes(kind: str) -> list[int | None] | None:
    """The axes in `float32[n,4]`, `None` for one of any length; `None` of a type without shape."""
    found = _SHAPE.fullmatch(kind)
    if found is None:
        return None
    return [None if axis.strip() in ("n", "?") else int(axis) for axis in found[2].split(",") if axis.strip()]


def kind_of(value: Any) -> str:
    """Return the type of a column whose first value is `value`."""
    value = _plain(value)
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "image" if _MAGIC.match(value) else "bytes"
    if _is_pillow(value):
        # Without loss.
        return "png"
    if isinstance(value, Mapping):
        return "json"
    if isinstance(value, (list, tuple)):
        if not value:
            raise TypeError("an empty list has no type: a type such as float32[n,4] gives one")
        return _dtype_of(value) or "json"
    if isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        return np.asarray(value).dtype.name
    raise TypeError(
        f"{type(value).__name__} is no type of a column: bytes, str, numbers, arrays, dict and PIL images are"
    )


def is_class(value: Any) -> bool:
    """Whether `value` can be a class: a whole number or text."""
    is_flag = isinstance(value, (bool, np.bool_))
    return isinstance(value, str) or not is_flag and hasattr(value, "__index__") and np.ndim(value) == 0


def is_number(text: str) -> bool:
    """Whether `text`, as a label, would be read as a number."""
    return _NUMBER.fullmatch(text) is not None


def check(kind: Any) -> str:
    """Return a type of `columns`, or raise an error."""
    if isinstance(kind, str):
        base, colon, quality = kind.partition(":")
        if base in _QUALITY and colon:
            if quality.isdecimal() and 1 <= int(quality) <= 100:
                return kind
        elif kind in _IMAGES or kind in _OTHERS or re.fullmatch(r"\.[a-z0-9]{1,8}", kind):
            return kind
        elif not colon and _numpy(_base(kind)) is not None and ("[" not in kind or _axes(kind) is not None):
            return str(_numpy(_base(kind))) + kind[len(_base(kind)) :]
    raise UsageError(
        f"columns: no type {shown(kind)}",
        help=f"types are {', '.join([*_IMAGES, *_OTHERS])}, a dtype as float32 or float32[n,4], jpeg:90, or an extension as .flac",
    )


def _numpy(name: str) -> np.dtype[Any] | None:
    try:
        dtype = np.dtype(name)
    except TypeError:
        return None
    return dtype if dtype.kind in "biufc" else None


def _plain(value: Any) -> Any:
    """A tensor as an array, and the bytes of an image of Hugging Face datasets."""
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if isinstance(value, dict) and value.keys() == {"bytes", "path"} and isinstance(value["bytes"], bytes):
        return value["bytes"]
    return value


def _is_pillow(value: Any) -> bool:
    return any(kind.__module__ == "PIL.Image" for kind in type(value).__mro__)


def _dtype_of(value: Any) -> str | None:
    """The dtype of a list of numbers, or of lists of one length; `None` of all else."""
    try:
        found = np.asarray(value)
    except ValueError:
        return None
    return found.dtype.name if found.size and found.dtype.kind in "biuf" else None


def _class(value: Any) -> Content:
    if isinstance(value, str):
        if not value or value != value.strip() or is_number(value):
            raise ValueError(f"{shown(value)} is no name of a class; numbers of classes are int")
        return value.encode()
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"a class is int or str, and not {type(value).__name__}")
    if value.__index__() < 0:
        raise ValueError(f"class {value}: no class has a number below 0")
    return b"%d" % value.__index__()


def _text(value: Any) -> Content:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__}, and the column has text")
    return value.encode()


def _json(value: Any) -> Content:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_of_json).encode()


def _of_json(value: Any) -> Any:
    """A value of numpy as JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON")


def _bytes(value: Any) -> Content:
    value = _plain(value)
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(value).__name__}, and the column has bytes")
    return bytes(value)


@functools.lru_cache(maxsize=4096)
def _head(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The head of a `.npy` file, version 1.0."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    padded = text.ljust(-(-(len(text) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode("latin1")


def _array(dtype: np.dtype[Any] | None, column: Column, value: Any) -> Content:
    found, axes = np.asarray(_plain(value)), _axes(column.kind)
    if dtype is not None and found.size == 0 and isinstance(value, (list, tuple)):
        # The dtype and shape of an empty list are those of the other rows.
        if axes is None and column.item is None:
            raise TypeError("an empty list has no shape: a type such as float32[n,4] gives one")
        found = np.empty((0, *(column.item or ())) if axes is None else [axis or 0 for axis in axes], dtype)
    if axes is not None and (
        len(axes) != found.ndim or any(axis not in (None, length) for axis, length in zip(axes, found.shape))
    ):
        raise TypeError(f"an array of shape {list(found.shape)}, and the column has {column.kind}")
    if dtype is not None and found.dtype != dtype:
        if not _fits(found, dtype, column.is_given):
            raise TypeError(f"{found.dtype.name}, and the column has {dtype.name}")
        found = found.astype(dtype)
    if found.dtype.kind not in "biufc":
        raise TypeError(f"an array of {found.dtype.name}, and not of numbers")
    little = np.ascontiguousarray(found, found.dtype.newbyteorder("<"))
    return _head(little.dtype.str, found.shape) + little.tobytes()


def _fits(found: np.ndarray[Any, Any], dtype: np.dtype[Any], is_given: bool) -> bool:
    """Whether `dtype` has all values; if the caller has given the dtype, floats may be rounded."""
    if (found.dtype.kind == "b") != (dtype.kind == "b") or found.dtype.kind not in "biufc":
        return False
    if is_given and dtype.kind in "fc" and np.can_cast(found.dtype, dtype, "same_kind"):
        return True
    if found.dtype.kind == "c" and dtype.kind != "c":
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array_equal(found.astype(dtype), found, equal_nan=True)


def _image(kind: str, value: Any) -> Content:
    value = _plain(value)
    base, _, quality = kind.partition(":")
    if isinstance(value, (bytes, bytearray, memoryview)):
        if not _MAGIC.match(value):
            raise ValueError("the bytes are no image that is known")
        return bytes(value)
    form = _IMAGES[base]
    if form is None:
        raise TypeError(f"{type(value).__name__}, and the column has encoded images: jpeg, png and webp encode pixels")
    if isinstance(value, np.ndarray):
        from PIL import Image

        value = Image.fromarray(value)
    if not _is_pillow(value):
        raise TypeError(f"{type(value).__name__}, and the column has images")
    out = io.BytesIO()
    value.save(out, form, **({"quality": int(quality or _QUALITY[base])} if base in _QUALITY else {}))
    return out.getvalue()


_ENCODERS: dict[str, Callable[[Any], Content]] = {"class": _class, "text": _text, "json": _json, "bytes": _bytes}


def _extension(image: bytes) -> str:
    """The extension of an encoded image."""
    heads = {b"\xff\xd8": "jpg", b"\x89P": "png", b"GI": "gif", b"RI": "webp", b"BM": "bmp"}
    return heads.get(image[:2], "tif")
