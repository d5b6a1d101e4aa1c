"""Native batches in the caller's form: arrays of numpy or tensors of torch, over the same memory."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _native
from ._cropped import Cropped
from .batch import Encoded
from .errors import UsageError
from .ragged import Ragged
from .transforms import Pipeline

#: dtypes that stay numpy arrays: torch has almost no operations for them.
_NUMPY_ALONE = {"uint16", "uint32", "uint64"}


class Outputs:
    """The form of arrays and images.

    Args:
        output: `"torch"`, `"numpy"`, or `None` to decide at the first batch.
        pipelines: The pipeline of each view.
        has_views: Whether images are a list of views.
        slots: Shape, dtype and first byte of each view in the memory of a batch.
    """

    def __init__(
        self,
        output: str | None,
        pipelines: Sequence[Pipeline],
        has_views: bool,
        slots: list[tuple[list[int], str, int]],
    ) -> None:
        self._output, self.pipelines, self.has_views = output, pipelines, has_views
        #: Height and width of an image in a batch, for each view.
        self._sizes: list[tuple[int, int]] = []
        for one, (shape, _, _) in zip(pipelines, slots):
            first = 0 if one.layout == "HWC" else 1
            self._sizes.append((shape[first], shape[first + 1]))

    @property
    def is_torch(self) -> bool:
        """Whether arrays are tensors."""
        if self._output is None:
            self._output = "torch" if "torch" in sys.modules else "numpy"
        return self._output == "torch"

    def array(self, array: Any) -> Any:
        """An array over native memory."""
        found = np.asarray(array)
        if not self.is_torch or found.dtype.kind not in "buifc" or found.dtype.name in _NUMPY_ALONE:
            return found
        import torch

        # torch has native byte order only.
        return torch.from_numpy(found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("=")))

    def columns(self, columns: Iterable[tuple[str, Any]], roles: Mapping[str, str]) -> dict[str, Any]:
        """The components of a batch by name; `roles` has those that follow the image."""
        found: dict[str, Any] = {}
        # Columns that follow the image come once for each view.
        views: dict[str, list[Any]] = {}
        for name, column in columns:
            follows = bool(self.pipelines) and roles.get(name) is not None
            before = views.setdefault(name, []) if follows else []
            is_image = follows and roles[name] == "image"
            value = self._view(column, self.pipelines[len(before)]) if is_image else self.column(column, name)
            before.append(value)
            found[name] = before if follows and self.has_views else value
        return found

    def of_sample(self, column: Any, name: str, at: int, roles: Mapping[str, str]) -> Any:
        """The value of sample `at`, or a list with that of each view."""
        follows = self.has_views and roles.get(name) is not None
        return [view[at] for view in column] if follows else column[at]

    def column(self, column: Any, name: str) -> Any:
        """A component for all samples of a batch."""
        if isinstance(column, list):
            return [self._value(one, name) for one in column]
        if not isinstance(column, tuple):
            return self.array(column)
        rows, offsets = self.array(column[0]), np.asarray(column[1])
        # Rows whose dtype torch lacks stay numpy arrays, and so do their offsets.
        return Ragged(rows, offsets if isinstance(rows, np.ndarray) else self.array(offsets))

    def _value(self, value: Any, name: str) -> Any:
        """One value of a column whose arrays have no common form."""
        if isinstance(value, _native.Array):
            return self.array(value)
        if isinstance(value, bytes) and name.rpartition(".")[2] == "npy":
            # An item order or header that the native part does not stack.
            try:
                return self.array(np.load(io.BytesIO(value), allow_pickle=False))
            except ValueError:
                # Python objects are never unpickled here.
                return value
        return value

    def content(self, native: _native.Batch, memory: Any, slots: list[tuple[list[int], str, int]]) -> Any:
        """Images, a list of views, or payloads; `memory` is torch's with the images, if it has them."""
        if memory is not None:
            views = [_lent_view(memory, native.samples, *slot) for slot in slots]
        elif native.images:
            views = [self._view(images, one) for images, one in zip(native.images, self.pipelines)]
        else:
            return None if native.encoded is None else Encoded(native.encoded)
        return views if self.has_views else views[0]

    def _view(self, images: Any, pipeline: Pipeline) -> Any:
        """One view of all images, or a component with the dtype of images."""
        if pipeline._request["dtype"] != "bfloat16" or isinstance(images, list):
            return self.column(images, "")
        found = np.asarray(images)
        if self.is_torch:
            import torch

            return torch.from_numpy(found.view(np.int16)).view(torch.bfloat16)
        try:
            import ml_dtypes
        except ImportError:
            raise UsageError("numpy has no bfloat16", help="pip install ml_dtypes, or output='torch'") from None
        return found.view(ml_dtypes.bfloat16)

    def cropped(self, native: _native.Batch, moved: Sequence[Any]) -> Cropped | list[Cropped | None] | None:
        """The cuts of the images, for each view; `moved` are the columns that the loader has moved."""
        found = zip(native.cropped, self._sizes)
        cuts = [None if one is None else Cropped(one, size, moved) for one, size in found]
        return cuts if self.has_views else cuts[0] if cuts else None


def _lent_view(memory: Any, samples: int, shape: list[int], dtype: str, start: int) -> Any:
    """A view of a batch in memory of torch, which begins at byte `start`."""
    import torch

    kind = {"|u1": torch.uint8, "<f4": torch.float32, "<f2": torch.float16, "<u2": torch.bfloat16}[dtype]
    size = samples * math.prod(shape) * kind.itemsize
    return memory[start : start + size].view(kind).view(samples, *shape)
