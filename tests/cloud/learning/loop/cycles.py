"""Cycles for everybody's tests, and the answers that let one through."""

from collections.abc import Mapping

from cloud.feedback.documents import DataSetSpec, DataSetVersion, Flooding
from cloud.learning.documents import Arrow, LoopSettings, Teacher, TriggerKind, Triggers
from cloud.learning.loop import events as e
from cloud.learning.loop.machine import begin, step
from cloud.learning.loop.record import Begun, CycleRecord
from cloud.registry.documents import State
from cloud.rollouts.documents import RolloutStatus
from cloud.training import figure_names as names
from cloud.training.documents import FineTune, Job, JobSpec, JobState

SHA = "a" * 64
NOW = 1000.0
BETTER = e.Paired(both=40, first=20, second=2, neither=8)
"""Who is surely right more often than the other."""
GOOD: Mapping[str, float] = {
    names.CLEAN: 0.92, names.CLEAN_PARENT: 0.921,
    names.holdout_rows("all"): 200.0, names.holdout_accuracy("all"): 0.85,
    names.holdout_gained("all"): 40.0, names.holdout_spoilt("all"): 5.0,
    names.holdout_rows("person"): 0.0,
}  # fmt: skip
"""Figures of a job whose new version is better."""


def settings(**changes: object) -> LoopSettings:
    """Nobody is asked, and 100 samples are enough."""
    base: dict[str, object] = {
        "model": "fashion-edge", "teacher": "fashion-cloud", "asks": frozenset[Arrow](),
        "triggers": Triggers(samples_min=100), "teacher_gate": Teacher(labelled_min=50),
        "watch_s": 60.0,
    }  # fmt: skip
    return LoopSettings.model_validate(base | changes)


def begun(**changes: object) -> CycleRecord:
    why = Begun(trigger=TriggerKind.SAMPLES, words="600 samples", number=7)
    return begin(settings(**changes), why, NOW).record


def data_set(*flooding: Flooding, holdout_rows: int = 20) -> DataSetVersion:
    return DataSetVersion(
        name="fashion-edge-7", number=1, sha256=SHA, bytes=1000,
        spec=DataSetSpec(model="fashion-edge"), rows=200, holdout_rows=holdout_rows, classes=10,
        per_class=(20,) * 10, devices=3, flooding=flooding, made_by="loop", made_at=NOW,
    )  # fmt: skip


def job(state: JobState = JobState.DONE, why: str = "", progress: float = 0.0) -> Job:
    recipe = FineTune(
        version="1.0.1", student="fashion-edge@1.0.0", base="fashion-mnist"
    )  # fmt: skip
    spec = JobSpec(recipe=recipe, data_set=SHA)
    return Job(
        id="finetune-1", spec=spec, state=state, submitted_by="loop", submitted_at=NOW, why=why,
        progress=progress,
    )  # fmt: skip


THROUGH: tuple[e.Answer, ...] = (
    e.Counted(600, BETTER),
    e.Built(data_set()),
    e.Chosen("1.0.0", "2.0.0", "1.0.1"),
    e.Submitted("finetune-1"),
    e.JobSeen(job(JobState.RUNNING, progress=0.5)),
    e.JobSeen(job(), GOOD),
    e.EvaluationSeen("0198", "queued"),
    e.EvaluationSeen("0198", "passed"),
    e.VersionSeen(State.CANDIDATE, is_approved=True),
    e.VersionSeen(State.RELEASED, is_approved=True),
    e.RolloutMade("r-1"),
    e.RolloutSeen(RolloutStatus.RUNNING, waits_for="30 samples"),
    e.RolloutSeen(RolloutStatus.RUNNING, is_watching=True),
)
"""From the count to the watch."""


def told(record: CycleRecord, *answers: e.Answer, now: float = NOW) -> CycleRecord:
    """Each answers what the cycle does then."""
    for answer in answers:
        record = step(record, e.Answered(record.cycle.revision, answer), now).record
    return record


def until(kind: str, **changes: object) -> CycleRecord:
    """The cycle on its way, when it begins to do that."""
    record = begun(**changes)
    for answer in THROUGH:
        if record.doing is not None and record.doing.kind == kind:
            return record
        record = told(record, answer)
    assert record.doing is not None
    assert record.doing.kind == kind
    return record
