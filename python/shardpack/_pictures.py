"""Images of rows: encoded ones as they are, pixels and images of Pillow encoded without a change that the type does not imply."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

#: Types of columns with images, and the name of the encoder in Pillow.
KINDS = {"image": None, "jpeg": "JPEG", "png": "PNG", "webp": "WEBP"}
#: Quality of the types that have one.
QUALITY = {"jpeg": 95, "webp": 90}
#: Modes of Pillow that an encoder keeps.
_MODES = {"JPEG": {"L", "RGB", "CMYK"}, "PNG": {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}, "WEBP": {"RGB", "RGBA"}}
#: First bytes of encoded images: of kinds that are detected, and of kinds that need a type.
_SURE = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|RIFF....WEBP", re.DOTALL)
_OTHERS = re.compile(rb"II\*\0|MM\0\*|BM....\0\0\0\0", re.DOTALL)
#: Tag of the Exif orientation.
_ORIENTATION = 0x0112


def is_surely_image(content: bytes) -> bool:
    """Whether bytes are an encoded image, by a start that other files do not have."""
    return _SURE.match(content) is not None


def is_pillow(value: Any) -> bool:
    """Whether `value` is an image of Pillow."""
    return any(kind.__module__ == "PIL.Image" for kind in type(value).__mro__)


def extension(content: bytes) -> str:
    """Return the extension of an encoded image."""
    heads = {b"\xff\xd8": "jpg", b"\x89P": "png", b"GI": "gif", b"RI": "webp", b"BM": "bmp"}
    return heads.get(content[:2], "tif")


def encode(kind: str, value: Any) -> bytes:
    """Return an encoded image of type `kind`; bytes stay as they are.

    Raises:
        TypeError, ValueError: If it is no image, or the encoder would lose a part of it.
    """
    base, _, quality = kind.partition(":")
    if isinstance(value, (bytes, bytearray, memoryview)):
        content = bytes(value)
        if not is_surely_image(content) and not _OTHERS.match(content):
            raise ValueError("the bytes are no image that is known")
        return content
    form = KINDS[base]
    if form is None:
        raise TypeError(f"{type(value).__name__}, and the column has encoded images: jpeg, png and webp encode pixels")
    if isinstance(value, np.ndarray):
        from PIL import Image

        value = Image.fromarray(value)
    if not is_pillow(value):
        raise TypeError(f"{type(value).__name__}, and the column has images")
    if getattr(value, "n_frames", 1) > 1:
        raise TypeError(f"an image of {value.n_frames} frames, and {base} has one")
    if value.info.get("exif") and value.getexif().get(_ORIENTATION, 1) != 1:
        from PIL import ImageOps

        # The encoded image has no Exif data.
        value = ImageOps.exif_transpose(value)
    if value.mode not in _MODES[form]:
        raise TypeError(f"pixels of mode {value.mode}, which {base} does not keep: convert('RGB') changes them")
    out = io.BytesIO()
    value.save(out, form, **({"quality": int(quality or QUALITY[base])} if base in QUALITY else {}))
    return out.getvalue()
