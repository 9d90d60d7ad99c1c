"""What a load needs: memory of a model, workers and devices for a rate. Pure.

Weights, activations and, for transformers, the KV cache, with a share kept free: allocators
fragment, and a device that is full to the last byte fails at its first odd request. The KV cache
holds a key and a value for each layer, head and token: 2 * layers * kv_heads * head_size * bytes
(Pope et al., "Efficiently Scaling Transformer Inference", MLSys 2023, section 2.1).
"""

import math
import re
from dataclasses import astuple, dataclass
from typing import Literal, cast, get_args

from shared.errors import Malformed, TooLarge

BYTES_OF: dict[str, float] = {
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5,
}  # fmt: skip
Precision = Literal["fp32", "fp16", "bf16", "int8", "int4"]
RESERVE = 0.3
SHARDS_MAX = 8
"""Devices of one copy: what one machine has."""
_BOUND = 2**40
"""Of any count that is given: beyond it is a slip of the keyboard."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
          "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}  # fmt: skip

_COUNTS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}


@dataclass(frozen=True, slots=True)
class KvCache:
    """Of a decoder. `tokens`: of one sequence, prompt and answer together. Raises `Malformed`."""

    layers: int
    kv_heads: int  # fewer than the query's with grouped-query attention
    head_size: int
    tokens: int
    sequences: int  # at once
    precision: Precision = "fp16"

    def __post_init__(self) -> None:
        if not all(0 < value <= _BOUND for value in astuple(self)[:5]):
            raise Malformed(f"KV cache: want five counts above 0 and up to {_BOUND}")

    @property
    def bytes(self) -> int:
        token = 2 * self.layers * self.kv_heads * self.head_size * BYTES_OF[self.precision]
        return math.ceil(token * self.tokens * self.sequences)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one copy of a model."""

    weights: int
    activations: int
    kv_cache: int
    reserve: int

    @property
    def total(self) -> int:
        return self.weights + self.activations + self.kv_cache + self.reserve


def weights_bytes(parameters: int, precision: Precision) -> int:
    """Raises `Malformed`."""
    if not 0 < parameters <= _BOUND * 8:
        raise Malformed(f"parameters: want a count above 0 and up to {_BOUND * 8}")
    return math.ceil(parameters * BYTES_OF[precision])


def memory(
    weights: int, *, activations: int = 0, kv_cache: KvCache | None = None, reserve: float = RESERVE
) -> Memory:
    """`activations` of the largest batch, bytes; `reserve`: share of the whole that stays free.

    Raises `Malformed`.
    """
    if weights <= 0 or activations < 0 or not 0 <= reserve < 1:
        raise Malformed("weights must be above 0, activations not below, the reserve in [0, 1)")
    cache = kv_cache.bytes if kv_cache is not None else 0
    used = weights + activations + cache
    return Memory(weights, activations, cache, math.ceil(used / (1 - reserve)) - used)


@dataclass(frozen=True, slots=True)
class Fleet:
    """`copies` answer the load; each takes `devices_a_copy` devices whole, and one in `spare` more
    than the rate needs stands in for one that fails.
    """

    copies: int
    spare: int
    copies_that_fit: int
    """On one device, by memory; 0 where a copy takes several. They would share its compute, so
    they serve more models, not more requests."""
    devices_a_copy: int
    devices: int


def fleet(
    one: Memory,
    device_bytes: int,
    *,
    qps: float,
    qps_at_sla: float,
    load_max: float = 0.75,
    spare: int = 1,
    shards_max: int = SHARDS_MAX,
) -> Fleet:
    """Devices for `qps`, when one copy with its devices to itself answers `qps_at_sla` within its SLA.

    `load_max`: share of that which is planned for. Raises `Malformed`, or `TooLarge` for a model
    that `shards_max` devices do not hold.
    """
    if min(device_bytes, qps, qps_at_sla) <= 0 or not 0 < load_max <= 1 or spare < 0:
        raise Malformed("device memory, QPS and QPS at the SLA must be above 0, the load in (0, 1]")
    shards = math.ceil(one.total / device_bytes)
    if shards > shards_max:
        raise TooLarge(
            f"the model needs {one.total / 2**30:.1f} GiB, over {shards_max} devices of "
            f"{device_bytes / 2**30:.1f}; use a lower precision, a smaller batch or bigger devices"
        )
    copies = math.ceil(qps / (qps_at_sla * load_max) - 1e-9) + spare
    beside = device_bytes // one.total if shards == 1 else 0
    return Fleet(copies, spare, int(beside), shards, copies * shards)


def precision_named(text: str) -> Precision:
    """Raises `Malformed`."""
    for name in get_args(Precision):
        if text == name:
            return cast("Precision", name)
    raise Malformed(f"precision {text[:20]!r}: want one of {', '.join(BYTES_OF)}")


def parse_count(text: str) -> int:
    """`7G`, `207k`, `1.5M`, `7000000`. Raises `Malformed`."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGBT]?)\s*", text[:40].upper())
    if found is None or (count := int(float(found[1]) * _COUNTS[found[2]])) <= 0:
        raise Malformed(f"{text[:40]!r}: want a count, such as 207k, 7G or 7000000")
    return count


def parse_bytes(text: str) -> int:
    """`24GiB`, `80 GB`, `1.5G`, `1048576`. Raises `Malformed`."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?I?)B?\s*", text[:40].upper())
    unit = None if found is None else _UNITS.get(found[2])
    if found is None or unit is None or (size := int(float(found[1]) * unit)) <= 0:
        raise Malformed(f"{text[:40]!r}: want bytes, such as 24GiB, 80GB or 1048576")
    return size


def parse_kv(text: str, precision: Precision = "fp16") -> KvCache:
    """`layers,kv-heads,head-size,tokens,sequences`. Raises `Malformed`."""
    words = text[:200].split(",")
    if len(words) != 5 or not all(
        word.strip().isascii() and word.strip().isdigit() for word in words
    ):
        raise Malformed(
            f"--kv {text[:60]!r}: want layers,kv-heads,head-size,tokens,sequences, such as "
            "32,8,128,4096,16"
        )
    layers, heads, size, tokens, sequences = (int(word[:14]) for word in words)
    return KvCache(layers, heads, size, tokens, sequences, precision)
