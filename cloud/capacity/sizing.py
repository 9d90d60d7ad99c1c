"""What a load needs: memory of a model, workers and devices for a rate. Pure.

Weights, activations and, for transformers, the KV cache, with a share kept free: allocators
fragment, and a device that is full to the last byte fails at its first odd request. The KV cache
holds a key and a value for each layer, head and token: 2 * layers * kv_heads * head_size * bytes
(Pope et al., "Efficiently Scaling Transformer Inference", MLSys 2023, section 2.1).
"""

import math
from dataclasses import dataclass
from typing import Literal

from shared.errors import Malformed, TooLarge

BYTES_OF: dict[str, float] = {
    "fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5,
}  # fmt: skip
Precision = Literal["fp32", "fp16", "bf16", "int8", "int4"]
RESERVE = 0.3


@dataclass(frozen=True, slots=True)
class KvCache:
    """Of a decoder. `tokens`: of one sequence, prompt and answer together."""

    layers: int
    kv_heads: int  # fewer than the query's with grouped-query attention
    head_size: int
    tokens: int
    sequences: int  # at once
    precision: Precision = "fp16"

    @property
    def bytes(self) -> int:
        token = 2 * self.layers * self.kv_heads * self.head_size * BYTES_OF[self.precision]
        return math.ceil(token * self.tokens * self.sequences)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one copy of a model on one device."""

    weights: int
    activations: int
    kv_cache: int
    reserve: int

    @property
    def total(self) -> int:
        return self.weights + self.activations + self.kv_cache + self.reserve


def memory(
    parameters: int,
    precision: Precision,
    *,
    activation_bytes_a_row: int = 0,
    batch: int = 1,
    kv_cache: KvCache | None = None,
    reserve: float = RESERVE,
) -> Memory:
    """`reserve` is the share of the whole that stays free. Raises `Malformed`."""
    if parameters <= 0 or activation_bytes_a_row < 0 or batch <= 0 or not 0 <= reserve < 1:
        raise Malformed("parameters and batch must be above 0, the reserve in 0..1 (below 1)")
    weights = math.ceil(parameters * BYTES_OF[precision])
    activations = activation_bytes_a_row * batch
    cache = kv_cache.bytes if kv_cache is not None else 0
    used = weights + activations + cache
    return Memory(weights, activations, cache, math.ceil(used / (1 - reserve)) - used)


@dataclass(frozen=True, slots=True)
class Fleet:
    """`copies` answer the load; each takes `devices_a_copy` whole, or shares one with others."""

    copies: int
    copies_a_device: int
    devices_a_copy: int
    devices: int


def fleet(
    one: Memory,
    device_bytes: int,
    *,
    qps: float,
    qps_at_sla: float,
    load_max: float = 0.8,
    spare: int = 1,
    shards_max: int = 8,
) -> Fleet:
    """Devices for `qps`, when one copy answers `qps_at_sla` within its SLA and has a device's whole
    compute; copies that fit beside each other still share it, so they count as one in rate.

    Raises `Malformed`, or `TooLarge` for a model that `shards_max` devices do not hold.
    """
    if min(device_bytes, qps, qps_at_sla, load_max) <= 0 or spare < 0:
        raise Malformed("device memory, QPS, QPS at the SLA and load must be above 0")
    shards = math.ceil(one.total / device_bytes)
    if shards > shards_max:
        raise TooLarge(
            f"the model needs {one.total / 2**30:.1f} GiB, over {shards_max} devices of "
            f"{device_bytes / 2**30:.1f}; use a lower precision, a smaller batch or bigger devices"
        )
    copies = math.ceil(qps / (qps_at_sla * load_max) - 1e-9) + spare
    beside = device_bytes // one.total if shards == 1 else 0
    return Fleet(copies, int(beside), shards, copies * shards)
