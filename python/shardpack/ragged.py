"""Arrays of different lengths in a batch, as one array of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class Ragged:
    """Arrays of a batch whose first axes differ, such as boxes: all rows in one array, and the offsets of each sample.

    Attributes:
        values: Rows of all samples, one sample after the other: numpy array or torch tensor `[N, …]`.
        offsets: First row of each sample, and the end of the last: `[B + 1] int64`.

    Raises:
        ValueError: If `offsets` do not ascend from 0 to the number of rows.

    Example:
        import numpy as np

        ragged = shardpack.Ragged(np.arange(5), np.array([0, 2, 2, 5]))
        print(len(ragged), ragged[2], ragged.lengths)  # 3 [2 3 4] [2 0 3]
        print(ragged.padded(-1).tolist())  # [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]
    """

    # Not a `Sequence`: torch's DataLoader would make a list of tensors of it.
    __slots__ = ("offsets", "values")

    def __init__(self, values: Any, offsets: Any) -> None:
        ends = np.asarray(offsets)
        if ends.ndim != 1 or not len(ends) or ends[0] != 0 or ends[-1] != len(values) or (ends[1:] < ends[:-1]).any():
            raise ValueError(f"offsets ascend from 0 to the {len(values)} rows of the values")
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, parts: Sequence[Any], row: tuple[int, ...] = ()) -> Ragged:
        """Join the arrays or tensors of a list, such as a column that some samples lack.

        Args:
            parts: For each sample an array `[n, …]`, or `None` for one without rows.
            row: Shape of a row, if all parts are `None`.

        Returns:
            A copy of all rows.
        """
        found = [part for part in parts if part is not None]
        offsets = np.cumsum([0, *(0 if part is None else len(part) for part in parts)], dtype=np.int64)
        if not found or isinstance(found[0], np.ndarray):
            return cls(np.concatenate(found) if found else np.zeros((0, *row), np.float32), offsets)
        import torch

        return cls(torch.cat(found), torch.from_numpy(offsets))

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.offsets) - 1

    def __getitem__(self, number: Any) -> Any:
        """Return the rows of one sample, a view `[n, …]`, or a `Ragged` for a slice."""
        if isinstance(number, slice):
            first, end, step = number.indices(len(self))
            if step != 1:
                raise ValueError(f"a step of {step}: Ragged has slices of consecutive samples")
            offsets = self.offsets[first : max(first, end) + 1]
            return Ragged(self.values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])
        at = range(len(self))[number]
        return self.values[int(self.offsets[at]) : int(self.offsets[at + 1])]

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    @property
    def lengths(self) -> Any:
        """Rows of each sample, `[B] int64`."""
        return self.offsets[1:] - self.offsets[:-1]

    def to_list(self) -> list[Any]:
        """Return the rows of each sample, as views."""
        return list(self)

    def padded(self, value: Any = 0) -> Any:
        """Copy the rows into one array with an axis of samples.

        Args:
            value: Value of missing rows.

        Returns:
            Array or tensor `[B, longest, …]`.
        """
        lengths = self.lengths
        longest = int(max(lengths)) if len(lengths) else 0
        shape = (len(lengths), longest, *self.values.shape[1:])
        if isinstance(self.values, np.ndarray):
            out = np.full(shape, value, self.values.dtype)
            out[np.arange(longest) < lengths[:, None]] = self.values
            return out
        import torch

        filled = self.values.new_full(shape, value)
        filled[torch.arange(longest, device=lengths.device) < lengths[:, None]] = self.values
        return filled

    def nested(self) -> Any:
        """Return a nested tensor of torch, jagged, over the same memory."""
        import torch

        return torch.nested.nested_tensor_from_jagged(torch.as_tensor(self.values), torch.as_tensor(self.offsets))

    def to(self, *where: Any, **options: Any) -> Ragged:
        """Move the tensors, with the arguments of torch's `Tensor.to`."""
        values = self.values.to(*where, **options)
        return Ragged(values, self.offsets.to(values.device))

    def pin_memory(self, *device: Any) -> Ragged:
        """Copy the tensors to pinned memory, as torch's DataLoader does."""
        return Ragged(self.values.pin_memory(*device), self.offsets.pin_memory(*device))

    def __repr__(self) -> str:
        dtype = str(self.values.dtype).removeprefix("torch.")
        rows = ", ".join(["n", *map(str, self.values.shape[1:])])
        return f"Ragged({len(self)} × {dtype}[{rows}], {len(self.values)} rows)"
