"""What a cycle asks of the queue, and its words about samples. Pure."""

from cloud.feedback.documents import DataSetVersion
from cloud.learning.documents import Arrow
from cloud.learning.loop.record import CycleRecord
from cloud.training.documents import FineTune, JobSpec

TEAM = "loop"


def job_spec(record: CycleRecord) -> JobSpec:
    """The current version's own weights, taught by the cycle's data set."""
    settings, cycle = record.settings, record.cycle
    assert cycle.version is not None
    return JobSpec(
        team=TEAM,
        recipe=FineTune(
            version=cycle.version, fitting=settings.fitting,
            student=f"{settings.model}@{record.before}",
            teacher=f"{settings.teacher}@{record.teacher}", base=settings.base,
            replay_rows=settings.replay_rows,
        ),
        data_set=cycle.data_set, cpus=settings.cpus,
        # the registry measures whatever is pushed, so who is asked before that is asked before both
        push=Arrow.EVALUATE not in settings.asks,
        comment=f"cycle {cycle.id}: {cycle.trigger_words}"[:500],
    )  # fmt: skip


def missing_samples(missing: int, present: int) -> str:
    """In a step of tens, so that each new sample is no news."""
    return f"{-(-missing // 10) * 10} more samples; {present // 10 * 10} are there"


def flooded(made: DataSetVersion) -> str:
    """Who sent too much of one class, and what was done about it."""
    most = sorted(made.flooding, key=lambda one: (-one.dropped, one.device, one.label))
    named = ", ".join(
        f"{one.device} ({one.rows + one.dropped} of class {one.label}, {one.dropped} dropped)"
        for one in most[:5]
    )
    more = f" and {len(most) - 5} more" if len(most) > 5 else ""
    return (
        f"data set {made.name} {made.number}: one class comes mostly from {named}{more}. A person's "
        "look at them (hybridge feedback list --device), and his go"
    )
