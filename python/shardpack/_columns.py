"""Columns of rows: how a value of Python becomes the content of a file in a tar.

A column has one type in all rows: the type in `columns`, or else the type of its first value. Missing values are `None`. A value
is stored as it is, or refused.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays, _pictures
from ._sizes import shown
from .errors import UsageError

#: Types of columns without images, besides dtypes and extensions.
_OTHERS = ("array", "bytes", "class", "json", "text")
_EXTENSIONS = {"text": "txt", "json": "json", "bytes": "bin"}
#: dtypes of `float`, `int` and `bool`, as in the head of an array.
_PLAIN = {"float64": "<f8", "int64": "<i8", "bool": "|b1"}
#: Extension of labels.
CLASS = "cls"
#: Names of a column, which are part of the name of a file in a tar.
_NAME = re.compile(r"[a-z0-9_]+")
#: Longest name of a component in bytes, with its extension.
_LONGEST = 32
#: A dtype with a shape.
_SHAPE = re.compile(r"([a-z0-9_]+)\[((?:\s*(?:n|\?|[0-9]{1,9})\s*(?:,|$))*(?:\s*(?:n|\?|[0-9]{1,9})\s*)?)\]")
#: Text that names a number, and would become one as a label.
_NUMBER = re.compile(r"[+-]?[0-9]+")
#: Largest number of a class.
_MAX_CLASS = 65_535


def name_of(name: Any) -> str:
    """Return the name of a column in a tar, in lower case as webdataset reads names."""
    found = name.lower() if isinstance(name, str) else ""
    if not _NAME.fullmatch(found) or found.startswith("__"):
        raise UsageError(
            f"column {shown(name)}: names have letters, digits and _", help="rename it, or leave it out of the rows"
        )
    return found


@dataclass(frozen=True)
class Column:
    """A column with its type.

    Attributes:
        name: Its name, in lower case.
        kind: Its type, as in `columns`; of classes, also whether values are numbers or names.
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
        if base in _pictures.KINDS:
            member = f"{name}.{_pictures.extension(_pictures.encode(kind, _plain(first)))}"
        elif base == "class":
            kind, member = f"class:{'name' if isinstance(first, str) else 'number'}", CLASS
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

    def is_of(self, kind: str) -> bool:
        """Whether `columns` may say `kind` for this column."""
        return kind == self.kind or kind == _base(self.kind) == "class"

    @property
    def is_image(self) -> bool:
        """Whether the column has encoded images."""
        return _base(self.kind) in _pictures.KINDS

    def plainly(self, classes: dict[Any, bytes]) -> tuple[str, Any]:
        """Return how the native part encodes values of the usual type, and the head of the array or the contents of `classes`."""
        base = _base(self.kind)
        if base in ("text", "bytes"):
            return base, None
        if base.startswith("."):
            return "bytes", None
        if base == "class":
            return "class", classes
        if self.is_image and self.member.endswith(".img"):
            return "image", None
        if base in _PLAIN and _axes(self.kind) is None:
            return base, _arrays.head(_PLAIN[base], ())
        return "", None

    def encode(self, value: Any) -> bytes:
        """Return the content of the file for `value`.

        Raises:
            TypeError, ValueError: If the column cannot have the value as it is.
        """
        base, value = _base(self.kind), _plain(value)
        if self.is_image:
            content = _pictures.encode(self.kind, value)
            extension = self.member.rpartition(".")[2]
            if extension not in ("img", _pictures.extension(content)):
                raise TypeError(f"an image {_pictures.extension(content)}, and the column has {extension}")
            return content
        if base == "class":
            return _class(value, isinstance(value, str) == self.kind.endswith("name"))
        encode = _ENCODERS.get(base)
        if encode is not None:
            return encode(value)
        if base.startswith("."):
            return _bytes(value)
        dtype = None if base == "array" else np.dtype(base)
        return _arrays.encode(value, dtype, _axes(self.kind), self.item, self.is_given)


@functools.lru_cache
def _base(kind: str) -> str:
    """A type without quality or shape."""
    return re.split(r"[:\[]", kind, maxsplit=1)[0]


@functools.lru_cache
def _axes(kind: str) -> tuple[int | None, ...] | None:
    """The axes in `float32[n,4]`, `None` for one of any length; `None` of a type without shape."""
    found = _SHAPE.fullmatch(kind)
    if found is None:
        return None
    return tuple(None if axis.strip() in ("n", "?") else int(axis) for axis in found[2].split(",") if axis.strip())


def kind_of(value: Any) -> str:
    """Return the type of a column whose first value is `value`.

    Raises:
        TypeError: If no type has it.
    """
    value = _plain(value)
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "image" if _pictures.is_surely_image(bytes(value)) else "bytes"
    if _pictures.is_pillow(value):
        # Without loss.
        return "png"
    if isinstance(value, Mapping):
        return "json"
    if isinstance(value, (list, tuple)):
        if not value:
            raise TypeError("an empty list has no type: a type such as float32[n,4] gives one")
        return _arrays.dtype_of_list(value) or "json"
    if isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        dtype = np.asarray(value).dtype
        if dtype.kind in _arrays.NUMBERS:
            return dtype.name
        raise TypeError(f"{dtype.name} is no type of numbers")
    raise TypeError(
        f"{type(value).__name__} is no type of a column: bytes, str, numbers, arrays, dict and PIL images are"
    )


def is_class(value: Any) -> bool:
    """Whether `value` can be a class: a whole number or text."""
    is_flag = isinstance(value, (bool, np.bool_))
    return isinstance(value, str) or not is_flag and hasattr(value, "__index__") and np.ndim(value) == 0


def check(kind: Any) -> str:
    """Return a type of `columns`, or raise an error."""
    if isinstance(kind, str):
        base, colon, quality = kind.partition(":")
        if base in _pictures.QUALITY and colon:
            if quality.isdecimal() and 1 <= int(quality) <= 100:
                return kind
        elif kind in _pictures.KINDS or kind in _OTHERS or re.fullmatch(r"\.[a-z0-9]{1,8}", kind):
            return kind
        elif not colon and _numpy(_base(kind)) is not None and ("[" not in kind or _axes(kind) is not None):
            return str(_numpy(_base(kind))) + kind[len(_base(kind)) :]
    raise UsageError(
        f"columns: no type {shown(kind)}",
        help=f"types are {', '.join([*_pictures.KINDS, *_OTHERS])}, a dtype as float32 or float32[n,4], jpeg:90, "
        "or an extension as .flac",
    )


def _numpy(name: str) -> np.dtype[Any] | None:
    try:
        dtype = np.dtype(name)
    except TypeError:
        return None
    return dtype if dtype.kind in _arrays.NUMBERS else None


def _plain(value: Any) -> Any:
    """A tensor as an array, and the bytes of an image of Hugging Face datasets."""
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if isinstance(value, dict) and value.keys() == {"bytes", "path"} and isinstance(value["bytes"], bytes):
        return value["bytes"]
    return value


def name_problem(name: Any) -> str | None:
    """Return why `name` is no name of a class that readers take as it is."""
    if not isinstance(name, str):
        return f"it is {type(name).__name__}"
    if not name or name != name.strip() or not name.isprintable():
        return "it is empty, or has blanks around it or characters that are not printable"
    if _NUMBER.fullmatch(name):
        return "it reads as a number"
    return "it reads as JSON" if name[0] in "[{" else None


def _class(value: Any, is_of_kind: bool) -> bytes:
    if not is_class(value):
        raise TypeError(f"a class is int or str, and not {type(value).__name__}")
    if not is_of_kind:
        raise TypeError("numbers and names of classes in one column")
    if isinstance(value, str):
        problem = name_problem(value)
        if problem is not None:
            raise ValueError(f"{shown(value)} is no name of a class: {problem}")
        return value.encode()
    if not 0 <= value.__index__() <= _MAX_CLASS:
        raise ValueError(f"class {value}: classes have the numbers 0 to {_MAX_CLASS}")
    return b"%d" % value.__index__()


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__}, and the column has text")
    return value.encode()


def _json(value: Any) -> bytes:
    _check_keys(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_of_json).encode()


def _check_keys(value: Any) -> None:
    """Raise an error for a key that is no text: JSON would change it."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {shown(key)}, and keys of JSON are text")
            _check_keys(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            _check_keys(one)


def _of_json(value: Any) -> Any:
    """A value of numpy as JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"{type(value).__name__}, and the column has bytes")
    return bytes(value)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {"text": _text, "json": _json, "bytes": _bytes}
