"""A device's telemetry document out of the arrays of `Traffic`.

Made without validation, which costs more than all the rest of a simulated device; a run "on the
wire" sends every document as bytes and reads it back, which validates it.
"""

import numpy as np

from shared.fleet.telemetry import CONFIDENCE_BINS, Health, InputSketch, Shadow, Tally, Telemetry
from simulations.fleet.models import MODEL
from simulations.fleet.traffic import CLASSES, COUNTS, PAIRS, Traffic

_HEALTH, _INPUTS = Health(), InputSketch()
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
    tally = Tally.model_construct(
        model=MODEL,
        version=traffic.traits[traffic.model[device]].version,
        started=started,
        latency=tuple(traffic.latency[device].tolist()),
        confidence=_rows(traffic.confidence[device]),
        **counts,
    )
    return Telemetry.model_construct(
        boot=boot,
        sequence=sequence,
        at=at,
        uptime_s=uptime_s,
        interval_s=interval_s,
        tally=tally,
        shadow=_shadow(traffic, device, shadow_started),
        inputs=_INPUTS,
        health=Health.model_construct(published_bytes=sent * ESCALATION_BYTES) if sent else _HEALTH,
        losses={},
    )


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
