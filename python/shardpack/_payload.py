"""The payload of a sample, which `Sample` of a dataset and `Item` of a loader decode alike."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _native
from .batch import _kind, figures

#: Types that browsers show.
_SHOWN = ("jpeg", "png", "gif", "webp", "bmp")


class Payload:
    """A sample with its payload."""

    __slots__ = ()

    bytes: Any

    def image(self, upright: bool = False) -> npt.NDArray[np.uint8]:
        """Decode the payload, natively and without the GIL.

        Args:
            upright: Rotate the image by its Exif orientation.

        Returns:
            Pixels, `[H, W, 3] uint8`, RGB.

        Raises:
            DataError: If the payload is no image, damaged or too large.
        """
        return np.asarray(_native.decode(bytes(self.bytes), upright))

    def pil(self) -> Any:
        """Open the payload with Pillow.

        Returns:
            A `PIL.Image` in RGB, as in torchvision's `ImageFolder`.
        """
        from PIL import Image

        return Image.open(io.BytesIO(self.bytes)).convert("RGB")

    def _repr_html_(self) -> Optional[str]:
        return pictures([self]) or None


def pictures(samples: Iterable[Any]) -> str:
    """Return HTML of the samples that are images, with their classes."""
    shown = [sample for sample in samples if sample.kind in _SHOWN]
    return figures([_kind(bytes(one.bytes)) for one in shown], [one.class_name or one.key for one in shown])
