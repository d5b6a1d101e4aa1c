"""The cuts of a batch's images, for boxes and points that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from .ragged import Ragged


class Cropped:
    """The cut of each image of a batch, and the way of boxes and points into the output.

    Edges are left, top, right, bottom, in pixels of the image as stored, or upright with `Pipeline(upright=True)`.

    Attributes:
        boxes: Edges of the part of the image that became the output, `[B, 4] float64`.
        placed: Edges of its place in the output, before the flips, `[B, 4] int64`.
        flips: Whether the output was flipped left to right, `[B] bool`.
        vertical_flips: Whether the output was flipped top to bottom, `[B] bool`.

    Example:
        batch = next(iter(shardpack.Loader("packed", 64, transform="eval", output="numpy")))
        print(batch.boxes_cropped.placed[0], batch.boxes_cropped.scales.shape)  # [  0   0 224 224] (64, 2)
    """

    __slots__ = ("_moved", "_size", "boxes", "flips", "placed", "vertical_flips")

    def __init__(self, native: tuple[_native.Array, ...], size: tuple[int, int], moved: Sequence[Any] = ()) -> None:
        #: Columns that the loader has moved.
        self._moved = moved
        self.boxes: npt.NDArray[np.float64] = np.asarray(native[0])
        self.placed: npt.NDArray[np.int64] = np.asarray(native[1]).astype(np.int64)
        self.flips: npt.NDArray[np.bool_] = np.asarray(native[2])
        self.vertical_flips: npt.NDArray[np.bool_] = np.asarray(native[3])
        self._size = size

    @property
    def scales(self) -> npt.NDArray[np.float64]:
        """Pixels of the output for a pixel of the image, across and down, `[B, 2] float64`."""
        sides = self.boxes[:, 2:] - self.boxes[:, :2]
        scales: npt.NDArray[np.float64] = (self.placed[:, 2:] - self.placed[:, :2]) / sides
        return scales

    def move_points(self, points: Ragged | Sequence[Any]) -> Ragged:
        """Move points from pixels of the images to pixels of the output; those outside stay outside.

        Args:
            points: `[n, 2]` for each sample: x, y. In a list, `None` is a sample without points.

        Returns:
            The points, `float32`.
        """
        self._check_stored(points)
        points = _joined(points, (2,))
        rows, of_row = self._rows(points, 2)
        moved = (rows - self.boxes[of_row, :2]) * self.scales[of_row] + self.placed[of_row, :2]
        height, width = self._size
        moved[:, 0] = np.where(self.flips[of_row], width - moved[:, 0], moved[:, 0])
        moved[:, 1] = np.where(self.vertical_flips[of_row], height - moved[:, 1], moved[:, 1])
        return self._like(points, moved, points.offsets)

    def move_boxes(
        self, boxes: Ragged | Sequence[Any], *beside: Ragged | Sequence[Any], min_size: float = 1.0
    ) -> tuple[Ragged, ...]:
        """Move boxes into the output, clip them, and drop those that are too small then.

        Equal to torchvision's `v2` transforms of `BoundingBoxes`, with `SanitizeBoundingBoxes(min_size)` at the end.

        Args:
            boxes: `[n, 4]` for each sample: left, top, right, bottom. In a list, `None` is a sample without boxes.
            beside: Columns with a row for each box, such as labels, which lose the same rows.
            min_size: Least width and height of a box in pixels of the output.

        Returns:
            The boxes, `float32`, and the columns of `beside`.
        """
        self._check_stored(boxes)
        boxes = _joined(boxes, (4,))
        rows, of_row = self._rows(boxes, 4)
        corners = (rows.reshape(-1, 2, 2) - self.boxes[of_row, None, :2]) * self.scales[of_row, None]
        corners += self.placed[of_row, None, :2]
        low, high = self.placed[of_row, None, :2], self.placed[of_row, None, 2:]
        corners = np.clip(corners, low, high)
        for axis, (side, flips) in enumerate(zip(self._size[::-1], (self.flips, self.vertical_flips))):
            corners[:, :, axis] = np.where(flips[of_row, None], side - corners[:, ::-1, axis], corners[:, :, axis])
        moved = corners.reshape(-1, 4).astype(np.float32)
        keeps = (moved[:, 2:] - moved[:, :2] >= min_size).all(axis=1)
        kept = np.bincount(of_row[keeps], minlength=len(boxes))
        offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        columns = [(boxes, moved[keeps])]
        for column in map(_joined, beside):
            if not np.array_equal(np.asarray(column.offsets), np.asarray(boxes.offsets)):
                raise ValueError("a column beside boxes has another number of rows for some sample")
            columns.append((column, np.asarray(column.values)[keeps]))
        return tuple(self._like(column, values, offsets) for column, values in columns)

    def _check_stored(self, column: Any) -> None:
        if any(column is one for one in self._moved):
            raise ValueError("the loader has moved this column already: roles={NAME: None} leaves it as stored")

    def _rows(self, ragged: Ragged, width: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """All rows, and the sample of each."""
        rows = np.asarray(ragged.values).astype(np.float64)
        if len(ragged) != len(self.flips) or rows.shape[1:] != (width,):
            raise ValueError(
                f"{ragged!r} for {len(self.flips)} images: rows of {width} numbers are wanted for each image"
            )
        return rows, np.repeat(np.arange(len(ragged)), np.diff(np.asarray(ragged.offsets)))

    @staticmethod
    def _like(ragged: Ragged, rows: npt.NDArray[Any], offsets: Any) -> Ragged:
        """Rows as tensors if those of `ragged` are."""
        rows = rows.astype(np.float32) if rows.dtype == np.float64 else rows
        if isinstance(ragged.values, np.ndarray):
            return Ragged(rows, np.asarray(offsets))
        import torch

        return Ragged(torch.from_numpy(np.ascontiguousarray(rows)), torch.as_tensor(offsets))

    def __repr__(self) -> str:
        return f"Cropped({len(self.flips)} images)"


def _joined(column: Ragged | Sequence[Any], row: tuple[int, ...] = ()) -> Ragged:
    return column if isinstance(column, Ragged) else Ragged.of(column, row)
