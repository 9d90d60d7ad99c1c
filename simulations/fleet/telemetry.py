"""A device's telemetry document out of the arrays of `Traffic`.

Made without validation, which costs more than all the rest of a simulated device; a run "on the
wire" sends every document as bytes and reads it back, which validates it.
"""

from typing import Any, TypeVar

import numpy as np

from shared.fleet.document import Document
from shared.fleet.telemetry import CONFIDENCE_BINS, Health, Shadow, Tally, Telemetry
from simulations.fleet.models import MODEL
from simulations.fleet.traffic import CLASSES, COUNTS, PAIRS, Traffic

_D = TypeVar("_D", bound=Document)
_HEALTH = Health()
ESCALATION_BYTES = 900
"""Of one escalated or audited sample: 28 x 28 bytes and its envelope."""


def telemetry(
    traffic: Traffic,
    device: int,
    *,
    boot: str,
    sequence: int,
    at: float,
    uptime_s: float,
    interval_s: float,
    started: int,
    shadow_started: int,
) -> Telemetry:
    """`traffic` must have run the device to now; `at` is in Unix seconds by the device's clock."""
    counts = dict(zip(COUNTS, traffic.counts[device].tolist(), strict=True))
    sent = counts["escalated"] + counts["audited"]
    tally = _made(
        Tally,
        {
            "model": MODEL,
            "version": traffic.traits[traffic.model[device]].version,
            "started": started,
            **counts,
            "novel": 0,
            "strata": (),
            "latency": tuple(traffic.latency[device].tolist()),
            "confidence": _rows(traffic.confidence[device]),
        },
    )
    return _made(
        Telemetry,
        {
            "boot": boot,
            "sequence": sequence,
            "at": at,
            "uptime_s": uptime_s,
            "interval_s": interval_s,
            "tally": tally,
            "shadow": _shadow(traffic, device, shadow_started),
            "sketches": None,
            "health": _made(
                Health, {**_HEALTH.__dict__, "published_bytes": sent * ESCALATION_BYTES}
            ),
            "losses": {},
        },
    )


def _made(kind: type[_D], values: dict[str, Any]) -> _D:
    """As `model_construct` with every member given, at a fifth of its time."""
    made = kind.__new__(kind)
    for name, value in (
        ("__dict__", values),
        ("__pydantic_fields_set__", set(values)),
        ("__pydantic_extra__", None),
        ("__pydantic_private__", None),
    ):
        object.__setattr__(made, name, value)
    return made


def _shadow(traffic: Traffic, device: int, started: int) -> Shadow | None:
    candidate = traffic.candidate[device]
    if candidate < 0:
        return None
    samples, agreed, failed = traffic.shadow[device].tolist()
    return Shadow.model_construct(
        version=traffic.traits[candidate].version,
        started=started,
        samples=samples,
        agreed=agreed,
        failed=failed,
        latency=tuple(traffic.shadow_latency[device].tolist()),
        **dict(zip(PAIRS, traffic.pairs[device].tolist(), strict=True)),
    )


def _rows(flat: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, flat.reshape(CLASSES, CONFIDENCE_BINS).tolist()))
