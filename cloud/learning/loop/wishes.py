"""What a cycle asks of the queue, and its words about samples. Pure."""

from datetime import UTC, datetime
from shlex import quote

from cloud.feedback.documents import DataSetVersion
from cloud.fleet.documents import EVERYBODY
from cloud.learning.documents import Arrow
from cloud.learning.loop.commands import Count
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


def unlabelled(count: Count) -> str:
    """The command that lists what people are to label for this cycle, and what it cannot say."""
    spec = count.spec
    parts = ["hybridge feedback list --unlabelled", f"--model {spec.model}"]
    if spec.cloud_model is not None:
        parts.append(f"--cloud-model {spec.cloud_model}")
    parts.append(f"--holdout-share {spec.holdout_share:g}")
    for option, at in (("since", spec.since), ("until", spec.until)):
        if at is not None:
            parts.append(f"--{option} {datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}")
    besides = []
    for option, names in (
        ("version", spec.versions), ("device", spec.devices), ("site", spec.sites),
        ("reason", spec.reasons),
    ):  # fmt: skip
        if len(names) == 1:
            parts.append(f"--{option} {quote(names[0])}")
        elif names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            besides.append(f"{option} {', '.join(names[:5])}{more}")
    if count.group != EVERYBODY and not spec.devices and not spec.sites:
        besides.append(f"device of group {count.group}")
    only = f" (of those: {'; '.join(besides)})" if besides else ""
    return " ".join(parts) + only
