"""Numbers and arrays as `.npy` files, without a change of any number that the caller has not allowed."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Kinds of dtypes that a column can have.
NUMBERS = "biufc"
#: Bits of the integers that a float of so many bytes holds.
_MANTISSA = {2: 11, 4: 24, 8: 53}

Array = np.ndarray[Any, Any]


def encode(
    value: Any,
    dtype: np.dtype[Any] | None,
    axes: Sequence[int | None] | None,
    item: tuple[int, ...] | None,
    may_round: bool,
) -> bytes:
    """Return a `.npy` file.

    Args:
        value: A number, an array, or lists of numbers.
        dtype: The dtype of the column; `None` for any.
        axes: Lengths of the axes, `None` for any length; or `None` for any shape.
        item: Shape of the items of an empty list.
        may_round: Floats may be rounded to the dtype.

    Raises:
        TypeError: If the column cannot have the numbers as they are.
    """
    found = _as_array(value)
    if dtype is not None and isinstance(value, (list, tuple)) and not value:
        found = np.empty(_empty_shape(axes, item), dtype)
    if axes is not None and (
        len(axes) != found.ndim or any(axis not in (None, length) for axis, length in zip(axes, found.shape))
    ):
        wanted = ",".join("n" if axis is None else str(axis) for axis in axes)
        raise TypeError(f"an array of shape {list(found.shape)}, and the column has [{wanted}]")
    if found.dtype.kind not in NUMBERS:
        raise TypeError(f"{found.dtype.name}, and the column has {'numbers' if dtype is None else dtype.name}")
    if dtype is not None and found.dtype != dtype:
        found = _cast(found, dtype, may_round)
    little = np.asarray(found, found.dtype.newbyteorder("<"), order="C")
    return head(little.dtype.str, little.shape) + little.tobytes()


def dtype_of_list(value: Sequence[Any]) -> str | None:
    """Return the dtype of a list of numbers, or of lists of one length; `None` of all else."""
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    if not found.size or found.dtype.kind not in "biuf":
        return None
    name: str = _as_array(value).dtype.name
    return name


def _as_array(value: Any) -> Array:
    """The numbers as they are; numpy would round some of a list of int and float."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array: filled() gives one without a mask")
    found = np.asarray(value)
    if isinstance(value, (list, tuple)) and found.dtype.kind in "iuf" and found.size:
        flat = value if found.ndim == 1 else np.array(value, dtype=object).ravel()
        kinds = {type(one) for one in flat}
        if bool in kinds or np.bool_ in kinds:
            raise TypeError("a list of numbers and of True or False")
        whole = (one for one in flat if not isinstance(one, (float, np.floating)))
        # As int: numpy compares its whole numbers as floats, which have lost the difference.
        if found.dtype.kind == "f" and any(int(float(one)) != int(one) for one in whole):
            raise TypeError("a list with whole numbers that a float cannot hold")
    return found


def _empty_shape(axes: Sequence[int | None] | None, item: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape of an empty list."""
    if axes is None:
        if item is None:
            raise TypeError("an empty list has no shape: a type such as float32[n,4] gives one")
        return (0, *item)
    if not axes or axes[0] is not None or None in axes[1:]:
        raise TypeError("an empty list, and only the first axis of the column may be empty")
    return (0, *(axis for axis in axes[1:] if axis is not None))


def _cast(found: Array, dtype: np.dtype[Any], may_round: bool) -> Array:
    """The same numbers with another dtype."""
    refused = TypeError(f"{found.dtype.name}, and the column has {dtype.name}")
    kinds = found.dtype.kind + dtype.kind
    if "b" in kinds or found.dtype.kind in "fc" and dtype.kind in "iu" or kinds == "cf":
        raise refused
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if found.size and (int(found.min()) < limits.min or int(found.max()) > limits.max):
            raise refused
        return found.astype(dtype)
    if found.dtype.kind in "iu":
        most = 1 << _MANTISSA.get(dtype.itemsize // (2 if dtype.kind == "c" else 1), 53)
        if found.size and (int(found.min()) < -most or int(found.max()) > most):
            raise TypeError(f"a whole number that {dtype.name} cannot hold")
        return found.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        cast = found.astype(dtype)
        is_same = np.array_equal(cast.astype(found.dtype), found, equal_nan=True)
    if not is_same and (not may_round or bool((np.isinf(cast) & ~np.isinf(found)).any())):
        raise refused
    return cast


@functools.lru_cache(maxsize=4096)
def head(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the head of a `.npy` file, version 1.0."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    padded = text.ljust(-(-(len(text) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode("latin1")
