"""Bytes of a PNG, JPEG, NPY or IDX file to uint8 arrays of the model's size.

Nothing is resized, rotated or normalised here: a model's preprocessing is inside its graph, so what
does not fit is refused with what to do about it. Colours become grey levels (ITU-R 601-2 luma),
because the models of format 1 take [height, width].
"""

import warnings
from io import BytesIO
from pathlib import PurePath
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from shared.errors import Malformed, TooLarge
from shared.imaging.idx import parse_idx
from shared.imaging.npy import parse_npy

PIXELS_MAX = 64 * 1024 * 1024  # of one image, and of all images in one data set
FILE_BYTES_MAX = 256 * 1024 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB`\x82"
_JPEG = b"\xff\xd8\xff"
_JPEG_END = b"\xff\xd9"
_NPY = b"\x93NUMPY"
_GREY_MODES = ("1", "L", "LA", "RGB", "RGBA", "P", "YCbCr")


def decode_samples(content: bytes, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """uint8 [N, *shape] of whatever the file holds: one image, or a data set of them.

    `name` is for messages (and says nothing about the format: the first bytes do). Raises
    `Malformed` or `TooLarge`.
    """
    if len(content) > FILE_BYTES_MAX:
        raise TooLarge(f"{name}: {len(content)} bytes; at most {FILE_BYTES_MAX} are read")
    if not content:
        raise Malformed(f"{name}: the file is empty")
    if content.startswith((_PNG, _JPEG)):
        return _in_shape(_decode_image(content, name, shape)[None], name, shape)
    if content.startswith(_NPY):
        return _in_shape(_as_uint8(parse_npy(content, name), name), name, shape)
    if content.startswith(b"\0\0"):
        return _in_shape(parse_idx(content, name), name, shape)
    kind = PurePath(name).suffix or "no suffix"
    raise Malformed(
        f"{name}: neither PNG, JPEG, NPY nor IDX ({kind}, first bytes {content[:4].hex()}); "
        "convert it to one of these"
    )


def decode_sample(content: bytes, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """uint8 [*shape]: `decode_samples` for a file that must hold exactly one."""
    samples = decode_samples(content, name, shape)
    if len(samples) != 1:
        raise Malformed(f"{name}: holds {len(samples)} samples; one is expected here")
    return np.asarray(samples[0])


def _decode_image(content: bytes, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if (_PNG_END if content.startswith(_PNG) else _JPEG_END) not in content:
        raise Malformed(f"{name}: cut short, its end marker is missing; save it again")
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # our own bound is lower than Pillow's warning
            with pillow.open(BytesIO(content), formats=("PNG", "JPEG")) as image:
                _refuse_unfit(image.size, image.mode, name, shape)
                image.load()
                grey = image.convert("L")
                return np.asarray(grey, np.uint8)
    except (TooLarge, Malformed):
        raise
    except pillow.DecompressionBombError as error:
        raise TooLarge(f"{name}: {_short(error)}") from error
    except Exception as error:
        raise Malformed(f"{name}: damaged: {_short(error)}; save it again") from error


def _refuse_unfit(size: tuple[int, int], mode: str, name: str, shape: tuple[int, ...]) -> None:
    """What the header says is judged before a pixel is decoded."""
    width, height = size
    if width * height > PIXELS_MAX:
        raise TooLarge(f"{name}: {width} x {height} pixels; at most {PIXELS_MAX}")
    if (height, width) != shape:
        raise Malformed(
            f"{name}: the image is {height} high and {width} wide, the model takes "
            f"{list(shape)}; crop or scale it before it gets here"
        )
    if mode not in _GREY_MODES:
        raise Malformed(f"{name}: pixel mode {mode}; save it as 8-bit grey or RGB")


def _as_uint8(array: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array.astype(np.uint8, copy=False)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise Malformed(f"{name}: holds NaN or infinity; send raw uint8 pixels")
    raise Malformed(
        f"{name}: dtype is {array.dtype}; send raw uint8 pixels, 0 to 255 (normalising is the "
        "graph's work)"
    )


def _in_shape(samples: NDArray[np.uint8], name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if samples.shape == shape:
        samples = samples[None]
    if samples.shape[1:] != shape:
        raise Malformed(
            f"{name}: holds {list(samples.shape)}, the model takes {list(shape)} or "
            f"[N, {', '.join(map(str, shape))}]"
        )
    if not len(samples):
        raise Malformed(f"{name}: holds no samples")
    return samples


def _pillow() -> ModuleType:
    from PIL import Image  # noqa: PLC0415 - 40 ms that a device without image files never pays

    return Image


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
