"""Batch sizes that an engine likes: a batch is padded up to one, or split over several. Pure.

onnxruntime and OpenVINO on a CPU take any size at a cost in proportion to it (OpenVINO specialises
itself at the first batch of each size, 3 ms, which warming up does), so nothing is padded there. On
a GPU a new size means that kernels are chosen or compiled anew, which takes up to seconds, and rows
are cheap: sizes are fixed there. Triton pads as its own model configuration says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_WASTE_MAX = 0.5  # padding rows, as a share of the real ones; beyond it a split computes less


@dataclass(frozen=True, slots=True)
class Part:
    """Run `size` rows from row `start` on; the last `size - rows` of them are padding."""

    start: int
    rows: int
    size: int


def sizes_for(engine: str, *, gpu: bool, size_max: int) -> tuple[int, ...]:
    """The sizes that the engine is to see, rising; () when any size up to `size_max` is as good."""
    if engine == "tensorrt" or (gpu and engine in ("onnxruntime", "openvino")):
        return powers_of_two(size_max)
    return ()


def powers_of_two(size_max: int) -> tuple[int, ...]:
    """1, 2, 4 ... and `size_max` itself."""
    below = [1 << k for k in range(size_max.bit_length()) if 1 << k < size_max]
    return (*below, size_max)


def parts(rows: int, sizes: tuple[int, ...]) -> Iterator[Part]:
    """Cover `rows` >= 1 by runs of the given sizes (rising, from 1); () is one run without padding.

    Only the last part is padded, and by at most half of its own rows.
    """
    if not sizes:
        yield Part(0, rows, rows)
        return
    start = 0
    while start < rows:
        left = rows - start
        fitting = next((size for size in sizes if size >= left), None)
        if fitting is not None and fitting - left <= left * _WASTE_MAX:
            yield Part(start, left, fitting)
            return
        whole = max(size for size in sizes if size <= left)
        yield Part(start, whole, whole)
        start += whole
