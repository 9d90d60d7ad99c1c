"""All that is kept of a cycle: what its API shows, and what it needs to go on after a crash. Pure."""

from pydantic import Field

from cloud.document import Document
from cloud.feedback.documents import DataSetSpec, Moment
from cloud.learning.documents import ENDS, Arrow, Cycle, LoopSettings, Phase, TriggerKind, Words
from cloud.learning.loop.commands import Command
from shared.bundle.manifest import Version
from shared.errors import Conflict

HALF_LIFE_S = 7 * 86_400.0


class Ending(Document):
    """How it ends once its last command is done."""

    phase: Phase
    why: Words
    was_away: bool = False
    """Whoever is to do that command could not, once at least."""


class CycleRecord(Document):
    """Between two steps it is whole: nothing of a cycle is anywhere else."""

    cycle: Cycle
    settings: LoopSettings
    """As they were when it began; a change is for the next cycle."""
    samples_since: Moment | None = None
    """Earlier samples were learned from before."""
    samples_until: Moment | None = None
    """Of its data set."""
    granted: frozenset[Arrow] = frozenset()
    asked_too: frozenset[Arrow] = frozenset()
    """Beside those of the settings, for a reason that came up."""
    doing: Command | None = None
    labels_wanted: int = 0
    """The teacher is looked at again with so many labels by people."""
    looks: int = 0
    """At the teacher, so far."""
    before: Version | None = None
    teacher: Version | None = None
    rolled_at: float | None = None
    ending: Ending | None = None

    @property
    def is_over(self) -> bool:
        return self.cycle.phase in ENDS


class Begun(Document):
    """Why and with what a cycle begins."""

    trigger: TriggerKind
    words: Words
    samples_since: Moment | None = None
    number: int = Field(ge=1)
    """Of all cycles of all models: no two have one name."""


def cycle_id(model: str, number: int) -> str:
    """At most 64 characters: it is its data set's name and its rollout's seed too."""
    return f"{model[: 64 - len(str(number)) - 1].rstrip('-')}-{number}"


def data_spec(settings: LoopSettings, since: float | None, until: float | None) -> DataSetSpec:
    """What the cycle takes from the feedback store. Raises `Conflict` where no sample can be of it."""
    given = settings.data or DataSetSpec(model=settings.model, half_life_s=HALF_LIFE_S)
    # a spec that says since when means it, whatever was learned from before
    # what nobody has judged teaches nobody: the gate looks at the teacher's own answers alone
    changes: dict[str, object] = {"model": settings.model, "cloud_model": settings.teacher}
    if given.since is None and since is not None:
        changes["since"] = since
    if given.until is None and until is not None:
        changes["until"] = until
    spec = given.model_copy(update=changes)
    if spec.since is not None and spec.until is not None and spec.since >= spec.until:
        begins = "learned from before" if given.since is None else "data.since"
        ends = "now" if given.until is None else "data.until"
        raise Conflict(
            f"the loop of {settings.model}: no sample is left that it could take, from "
            f"{spec.since:.0f} ({begins}) until {spec.until:.0f} ({ends}); set other times in data, or "
            "none"
        )
    return spec
