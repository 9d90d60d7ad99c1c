"""How long a fine-tuned int8 model's delta is, as a share of the whole file, beside other ways.

    python -m simulations.registry_bench.deltas

The model is built here: 14 dense layers of int8 weights with their scales, some 10 MB. Each way packs
the same two files; each result is applied once, and must give the new file.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import bsdiff4
import numpy as np
import onnx
import zstandard
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cloud.registry.deltas.encoder import encode
from shared.delta.decoder import apply

_WIDTH, _LAYERS, _CLASSES = 880, 13, 100
_NUDGE = 0.02  # relative to each weight: a fine-tuning's steps together

Weights = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Packed:
    """One way of sending one change. `share` is of the whole file, uncompressed."""

    change: str
    way: str
    bytes: int
    share: float
    encode_s: float
    decode_s: float


def measure(
    changes: tuple[str, ...] = ("head", "last layers", "all weights", "retrained"),
) -> list[Packed]:
    """Takes about two minutes, nearly all of it bsdiff's."""
    rng = np.random.default_rng(5)
    shapes = [(_WIDTH, _WIDTH)] * _LAYERS + [(_WIDTH, _CLASSES)]
    before = [rng.normal(0, 0.02, shape) for shape in shapes]
    old = int8_model(before)
    found = []
    for change in changes:
        new = int8_model(_changed(before, change, rng))
        found += [_packed(change, way, old, new) for way in _WAYS]
    return found


def int8_model(weights: Weights) -> bytes:
    """An ONNX file of dense layers: int8 weights, a scale for each column, and float32 biases."""
    tensors, nodes, last = [], [], "input"
    for number, weight in enumerate(weights):
        scale = np.abs(weight).max(axis=0) / 127
        values = {
            f"w{number}": np.round(weight / scale).astype(np.int8),
            f"s{number}": scale.astype(np.float32),
            f"z{number}": np.zeros(len(scale), np.int8),
            f"b{number}": weight.mean(axis=0).astype(np.float32),
        }
        tensors += [numpy_helper.from_array(value, name) for name, value in values.items()]
        nodes += [
            helper.make_node(
                "DequantizeLinear",
                [f"w{number}", f"s{number}", f"z{number}"],
                [f"d{number}"],
                axis=1,
            ),
            helper.make_node("Gemm", [last, f"d{number}", f"b{number}"], [f"y{number}"]),
        ]
        last = f"y{number}"
    graph = helper.make_graph(
        nodes, "mlp",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", len(weights[0])])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", weights[-1].shape[1]])],
        initializer=tensors,
    )  # fmt: skip
    model: onnx.ModelProto = helper.make_model(graph)
    return bytes(model.SerializeToString())


def _changed(weights: Weights, change: str, rng: np.random.Generator) -> Weights:
    match change:
        case "head":
            moved = {len(weights) - 1}
        case "last layers":
            moved = set(range(len(weights) - 3, len(weights)))
        case _:
            moved = set(range(len(weights)))
    new = []
    for number, weight in enumerate(weights):
        noise = rng.normal(0, 1, weight.shape)
        if number not in moved:
            new.append(weight)
        else:
            new.append(
                weight.std() * noise if change == "retrained" else weight * (1 + _NUDGE * noise)
            )
    return new


def _packed(change: str, way: str, old: bytes, new: bytes) -> Packed:
    pack, unpack = _WAYS[way]
    began = time.perf_counter()
    delta = pack(old, new)
    middle = time.perf_counter()
    if unpack(old, delta) != new:
        raise AssertionError(f"{way} of {change} does not give the new file")
    end = time.perf_counter()
    return Packed(change, way, len(delta), len(delta) / len(new), middle - began, end - middle)


def _applied(old: bytes, delta: bytes) -> bytes:
    return apply(old, delta, bytes_max=1 << 30, sha256=delta[40:72].hex())


def _whole(_: bytes, new: bytes) -> bytes:
    return zstandard.compress(new, 3)


def _unpacked(_: bytes, frame: bytes) -> bytes:
    return zstandard.decompress(frame)


def _subtracted(old: bytes, new: bytes) -> bytes:
    """Only for files of one size: what the delta would be with its differences not joined."""
    return zstandard.compress((_array(new) - _array(old)).tobytes(), 19)


def _added(old: bytes, frame: bytes) -> bytes:
    return (_array(old) + _array(zstandard.decompress(frame))).tobytes()


def _array(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)


def _beside_old(old: bytes, new: bytes) -> bytes:
    """What `zstd --patch-from` does: the old file as a dictionary that the window reaches over."""
    window = (len(old) + len(new)).bit_length()
    parameters = zstandard.ZstdCompressionParameters.from_level(
        19, source_size=len(new), window_log=window, enable_ldm=True
    )
    dictionary = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=dictionary).compress(
        new
    )


def _from_old(old: bytes, delta: bytes) -> bytes:
    dictionary = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=1 << 27).decompress(
        delta
    )


_Way = tuple[Callable[[bytes, bytes], bytes], Callable[[bytes, bytes], bytes]]
_WAYS: dict[str, _Way] = {
    "whole, zstd -3": (_whole, _unpacked),
    "hybridge": (encode, _applied),
    "byte differences, zstd -19": (_subtracted, _added),
    "bsdiff4": (bsdiff4.diff, bsdiff4.patch),
    "zstd -19, old as dictionary": (_beside_old, _from_old),
}


def _table(found: list[Packed]) -> str:
    lines = ["| change | way | MB | share | encode s | decode s |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {one.change} | {one.way} | {one.bytes / 1e6:.2f} | {one.share:.1%} | {one.encode_s:.2f} "
        f"| {one.decode_s:.2f} |"
        for one in found
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(_table(measure()))
