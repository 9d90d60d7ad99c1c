"""What is waited for, in order: the alarm, the cycle that it begins, the version on every camera."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloud.demo.drift.cameras import GROUP, Cameras
from cloud.demo.drift.person import Person
from cloud.demo.drift.region import CLEAN_LOSS_MAX, CLOUD, EDGE, Region
from cloud.fleet.client.client import FleetClient
from cloud.learning.client.client import LearningClient
from cloud.learning.documents import (
    ENDS,
    Acceptance,
    Cycle,
    LoopSettings,
    Phase,
    Teacher,
    Triggers,
)
from cloud.monitoring.drift.documents import Alarm, Kind
from cloud.training.documents import FineTuning
from shared.errors import DeadlineMissed

HOLDOUT: Final = 0.1
ALARM_S_MAX: Final = 120.0
CYCLE_S_MAX: Final = 900.0
_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Happened:
    alarm: Alarm
    drifted_samples: int
    """Samples of the group since the shift, when the alarm was seen."""
    cycle: Cycle
    cycle_s: float
    labelled: int
    """By the person."""
    versions: dict[str, str]
    """That each camera runs in the end."""
    bundle: Path | None
    """The new version's archive; None: there is none."""
    data_rows: int
    """Of the data set, those that are held out included; 0: there is none."""


async def story(
    region: Region,
    cameras: Cameras,
    person: Person,
    samples_min: int,
    epochs: int,
    say: Callable[[str], None],
) -> Happened:
    """From the moment on at which cameras run. `samples_min`: before a cycle takes its data set.

    Raises `DeadlineMissed` for what does not come.
    """
    async with FleetClient([region.fleet]) as fleet, LearningClient([region.learning]) as learning:
        await learning.loops.put(_loop(samples_min, epochs), 0)
        alarm, drifted = await _alarm(fleet, cameras)
        say(f"alarm after {drifted} samples of the group: {alarm.words}")
        say(f"  {alarm.runbook}")
        began = time.monotonic()
        cycle = await _cycle(learning, person, say)
        taken_s = time.monotonic() - began
        say(f"cycle {cycle.phase.value} after {taken_s:.0f} s {cycle.why}".rstrip())
        bundle = await _fetched(learning, cycle, region.folder)
        versions = await cameras.versions()
        made = {one.sha256: one.rows for one in await learning.data_sets.all()}
        rows = 0 if cycle.data_set is None else made[cycle.data_set]
    return Happened(alarm, drifted, cycle, taken_s, person.labelled, versions, bundle, rows)


def _loop(samples_min: int, epochs: int) -> LoopSettings:
    """Asks nobody but for labels: by default a person approves and releases."""
    return LoopSettings(
        model=EDGE, teacher=CLOUD, group=GROUP,
        triggers=Triggers(samples_min=samples_min, pause_s=3600.0),
        fitting=FineTuning(epochs=epochs),
        teacher_gate=Teacher(labelled_min=50), acceptance=Acceptance(clean_loss_max=CLEAN_LOSS_MAX),
        asks=frozenset(), rollout_stages="fast", watch_s=2.0,
    )  # fmt: skip


async def _alarm(fleet: FleetClient, cameras: Cameras) -> tuple[Alarm, int]:
    try:
        async with asyncio.timeout(ALARM_S_MAX):
            while True:
                for alarm in await fleet.drift.alarms():
                    is_input = alarm.kind in {Kind.INPUT, Kind.ANSWER}
                    if is_input and (alarm.scope.kind, alarm.scope.name) == ("group", GROUP):
                        return alarm, await cameras.drifted()
                await asyncio.sleep(_LOOK_S)
    except TimeoutError as error:
        raise DeadlineMissed(f"no alarm named {GROUP} within {ALARM_S_MAX:.0f} s") from error


async def _cycle(learning: LearningClient, person: Person, say: Callable[[str], None]) -> Cycle:
    """The first one, when it has ended; meanwhile the person gives the labels that it asks for."""
    seen: tuple[Phase, str] | None = None
    try:
        async with asyncio.timeout(CYCLE_S_MAX):
            while True:
                loop = await learning.loops.get(EDGE)
                cycle = loop.cycle or loop.last
                if cycle is not None:
                    if (cycle.phase, cycle.waits_for) != seen:
                        seen = cycle.phase, cycle.waits_for
                        say(f"  {cycle.phase.value} {cycle.waits_for}".rstrip())
                    if cycle.phase in ENDS:
                        return cycle
                    if "label" in cycle.waits_for:
                        await person.label(learning, EDGE, HOLDOUT, 200)
                await asyncio.sleep(_LOOK_S)
    except TimeoutError as error:
        raise DeadlineMissed(f"the cycle did not end within {CYCLE_S_MAX:.0f} s") from error


async def _fetched(learning: LearningClient, cycle: Cycle, folder: Path) -> Path | None:
    if cycle.job is None:
        return None
    run = await learning.jobs.run(cycle.job)
    for artifact in run.artifacts:
        if artifact.name.endswith(".hyb"):
            path = folder / artifact.name
            await learning.jobs.fetch(cycle.job, artifact, path, lambda _: None)
            return path
    return None
