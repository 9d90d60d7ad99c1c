"""One stream: a fleet before a drift and for half an hour of it, or for a day in which nothing drifts. Pure."""

from dataclasses import dataclass
from typing import Final

from cloud.monitoring.drift.settings import DriftSettings
from simulations.drift_bench.fleet import DAY_S, REPORT_S, Fleet
from simulations.drift_bench.material import Material
from simulations.drift_bench.verdict import (
    Outcome,
    Verdict,
    Where,
    drifting_cameras,
    wanted_of,
)

SAMPLES: Final = 10.0
"""Of a report, on average."""
BEFORE: Final = 12
SAMPLES_BEFORE: Final = 40.0
"""Reports of each device until drift begins, longer ones: every window is full then."""
AFTER: Final = 60
"""Reports of each device from then on, whatever has been named: what is said later counts, too."""


@dataclass(frozen=True, slots=True)
class Stream:
    shift: str | None
    """None: nothing drifts."""
    where: Where
    seed: int
    """Of all that is random: classes of sites and cameras, the hour, when each camera reports and when
    looks come, the images."""


def run(stream: Stream, material: Material, settings: DriftSettings) -> Outcome:
    fleet = Fleet(material, stream.seed, settings)
    if stream.shift is None:
        verdict = Verdict(fleet.cameras, frozenset(), ())
    else:
        drifting = drifting_cameras(fleet.cameras, stream.where)
        verdict = Verdict(fleet.cameras, drifting, wanted_of(fleet.cameras, stream.where))
    before_s = BEFORE * REPORT_S
    after_s = DAY_S if stream.shift is None else AFTER * REPORT_S
    for now, camera in fleet.moments(before_s + after_s):
        if camera is None:
            verdict.looked(fleet.watch.look(now))
            continue
        since_s = now - fleet.begins - before_s
        after = min(max(since_s / REPORT_S, 0.0), 1.0)  # of what is new in the report
        fleet.see(camera, SAMPLES_BEFORE * (1 - after), now)
        kind = stream.shift if verdict.is_drifting(camera) else None
        verdict.reported(camera, fleet.see(camera, SAMPLES * after, now, kind))
        fleet.report(camera, now)
    verdict.outcome.days = 1.0 if stream.shift is None else 0.0
    return verdict.outcome
