"""The demo's shell: a region, four cameras, one shift; then what it did to accuracy."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cloud.demo.drift.cameras import cameras
from cloud.demo.drift.person import Person
from cloud.demo.drift.region import region
from cloud.demo.drift.scene import DRIFTING, Scene, scene, write_frames, write_gate
from cloud.demo.drift.story import Happened, story
from cloud.demo.drift.verdict import Row
from cloud.demo.processes import while_running
from cloud.learning.documents import Phase
from cloud.training.documents import FineTuning
from shared.bundle.reader import Bundle, open_bundle
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine

Say = Callable[[str], None]
_BATCH = 250


@dataclass(frozen=True, slots=True)
class Plan:
    edge: Path
    """Bundles."""
    cloud: Path
    folder: Path
    kind: str
    """One of `cloud.training.shifts.SHIFTS`."""
    rate_per_s: float
    """Frames of each camera."""
    samples_min: int
    """Samples that must have come back before a data set is made."""
    epochs: int = FineTuning().epochs
    """Of the training job."""


async def run(plan: Plan, say: Say) -> Row:
    """Everything that it starts has ended when it returns."""
    seen = scene(plan.kind)
    before = open_bundle(plan.edge)
    gate = plan.folder / "clean.npz"
    write_gate(seen, gate)
    frames = write_frames(seen, plan.folder)
    person = Person(
        np.concatenate([seen.stream, seen.clean]), np.tile(seen.stream_labels, 2),
        before.manifest.payload.codec, before.dictionary,
    )  # fmt: skip
    async with (
        region(plan.folder, plan.edge, plan.cloud, gate, say) as there,
        cameras(there, plan.edge, frames, plan.rate_per_s) as running,
    ):
        say(f"{len(running.agents)} cameras; {' and '.join(DRIFTING)} will see: {plan.kind}")
        telling = story(there, running, person, plan.samples_min, plan.epochs, say)
        happened = await while_running(telling, [*there.processes, *running.agents.values()])
    return _row(seen, before, happened)


def _row(seen: Scene, before: Bundle, happened: Happened) -> Row:
    cycle = happened.cycle
    after = before if happened.bundle is None else open_bundle(happened.bundle)
    version = after.manifest.version
    moved = {name for name, runs in happened.versions.items() if runs == version}
    return Row(
        kind=seen.kind, delay_samples=happened.drifted_samples,
        data_rows=happened.data_rows,
        clean_before=_accuracy(before, seen.held, seen.held_labels),
        clean_after=_accuracy(after, seen.held, seen.held_labels),
        before=_accuracy(before, seen.held_shifted, seen.held_labels),
        after=_accuracy(after, seen.held_shifted, seen.held_labels),
        cycle_s=happened.cycle_s, moved=moved == set(DRIFTING),
        why="" if cycle.phase is Phase.DONE else f"the cycle {cycle.phase.value}: {cycle.why}",
        missed=tuple(one.name for one in cycle.findings if not one.holds),
    )  # fmt: skip


def _accuracy(bundle: Bundle, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
    """Of the int8 graph, in onnxruntime, as the cameras run it."""
    (variant,) = (one for one in bundle.manifest.variants if one.key == "onnxruntime/int8")
    session = OnnxRuntimeEngine().open(bundle.read(variant.file), OpenOptions())
    winners = [
        session.run(images[at : at + _BATCH]).argmax(axis=1) for at in range(0, len(images), _BATCH)
    ]
    return float((np.concatenate(winners) == labels).mean())
