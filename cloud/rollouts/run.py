"""A rollout's state and the few ways in which it may change; every other module goes through them."""

import heapq
from dataclasses import dataclass, field

from cloud.rollouts.arms import PANEL_MAX, Evidence
from cloud.rollouts.criteria import Criterion
from cloud.rollouts.documents import CriterionView, ModelSubject, Phase, RolloutSpec, RolloutStatus
from cloud.rollouts.events import Command, Note
from cloud.rollouts.member import WHY_MAX, Member
from cloud.rollouts.stages import INSTALLING, Stage, Standing
from shared.day_span import DaySpan


@dataclass(slots=True)
class Run:
    id: str
    spec: RolloutSpec
    criteria: tuple[Criterion, ...]
    hours: tuple[DaySpan, ...]
    members: list[Member]
    """In the order in which they move."""
    index: dict[str, Member]
    stages: list[Stage]
    standing: Standing
    evidence: Evidence
    created_by: str
    created_at: float
    status: RolloutStatus = RolloutStatus.DRAFT
    undoing: bool = False
    why: str = ""
    stage: int = 0
    attempt: int = 1
    waits: bool = False
    """For approval."""
    asks: bool = False
    """It paused itself for want of evidence, and goes on when that comes."""
    started_at: float | None = None
    ended_at: float | None = None
    live_at: float | None = None
    """When the first live stage opened."""
    revision: int = 0
    stepped_at: float = 0.0
    """The newest `now`: time never goes back in here."""
    heard_at: float = 0.0
    """When any device was heard."""
    listening_since: float = 0.0
    """The region hears devices since then without a gap, so silence before it is its own."""
    installing: int = 0
    """Devices that install now."""
    # Built again from the rest after a restart:
    queue: list[tuple[float, int]] = field(default_factory=list)
    """A heap of (when its window opens, place) of devices to order."""
    deadlines: list[tuple[float, int]] = field(default_factory=list)
    """A heap of (when to look, place)."""
    judged: "tuple[CriterionView, ...]" = ()
    hearing: "Hearing" = field(default_factory=lambda: Hearing(1.0))
    """Of the devices without an order."""
    # Of the step that is under way:
    out: list[Command] = field(default_factory=list)
    touched: dict[int, None] = field(default_factory=dict)
    """Places of the members that changed."""
    head: bool = False

    @property
    def now_stage(self) -> Stage:
        return self.stages[self.stage]

    @property
    def reached(self) -> int:
        """Devices whose stage has been opened: places below this."""
        return max((one.end for one in self.stages if one.opened_at is not None), default=0)

    @property
    def version(self) -> str:
        """Of the subject, as devices report it."""
        subject = self.spec.subject
        return subject.version if isinstance(subject, ModelSubject) else str(subject.version)

    @property
    def before_it(self) -> str:
        """How a target says that it had the subject before: `Target.before`."""
        subject = self.spec.subject
        return (
            self.version if isinstance(subject, ModelSubject) else f"{subject.name}/{self.version}"
        )

    @property
    def name(self) -> str:
        subject = self.spec.subject
        named = subject.model if isinstance(subject, ModelSubject) else subject.name
        return f"{named} {self.version}"

    @property
    def sha256(self) -> str:
        subject = self.spec.subject
        return subject.manifest_sha256 if isinstance(subject, ModelSubject) else subject.sha256

    @property
    def active(self) -> bool:
        return self.status in (RolloutStatus.RUNNING, RolloutStatus.PAUSED)

    def in_panel(self, member: Member) -> bool:
        """Its histograms count."""
        return member.place - self.stages[member.stage].first < PANEL_MAX

    def touch(self, member: Member) -> None:
        self.touched[member.place] = None

    def note(self, kind: str, words: str, device: str | None = None) -> None:
        self.out.append(Note(kind, words[:1000], device))

    def move(self, member: Member, phase: Phase, now: float, why: str = "") -> None:
        """Put a device into another phase; whoever calls knows that it may go there."""
        before = member.phase
        self.touch(member)
        member.why = why[:WHY_MAX]
        if before is phase:
            return
        was_busy = is_busy(member)
        if before in (Phase.REJECTED, Phase.FAILED) and member.golden:
            self.evidence.golden -= 1
            member.golden = False
        self.standing.moved(member.cut, before, phase)
        member.phase, member.since = phase, now
        self.installing += is_busy(member) - was_busy
        self.evidence.changed = self.head = True

    def presence(self, member: Member, online: bool) -> None:
        if member.online is not online:
            was_busy = is_busy(member)
            member.online = online
            self.installing += is_busy(member) - was_busy
            self.touch(member)

    def heard(self, member: Member, now: float) -> None:
        if not member.ordered:
            self.hearing.heard(member.heard_at, now)
        member.heard_at = now
        self.touch(member)

    def took(self, member: Member, now: float) -> None:
        """It runs the new version from now on: the clock of its stage begins again."""
        for stage in (self.stages[member.stage], self.now_stage):
            stage.took_at, stage.unseen_s = now, 0.0

    def busy_again(self, member: Member) -> None:
        """Its order turned from shadow to live, which `is_busy` depends on."""
        if member.phase is Phase.STAGED:
            self.installing += 1

    def enqueue(self, member: Member, opens_at: float) -> None:
        member.opens_at = opens_at
        self.touch(member)
        heapq.heappush(self.queue, (opens_at, member.place))

    def look_at(self, member: Member, due: float) -> None:
        """At `due` or before; a later look that is planned already is not needed."""
        if due < member.listed_at:
            member.listed_at = due
            heapq.heappush(self.deadlines, (due, member.place))


class Hearing:
    """How many devices were heard lately, in slices of time, so that a word costs O(1)."""

    def __init__(self, silence_s: float) -> None:
        self._slice_s = silence_s / 8
        self._slices: dict[int, int] = {}
        self._floor = 0
        """What is older is counted there."""

    def heard(self, before: float | None, now: float) -> None:
        """Again; None: for the first time."""
        if before is not None:
            self.forget(before)
        key = self._key(now)
        self._slices[key] = self._slices.get(key, 0) + 1
        if key - self._floor > 32:
            self._sink(key - 16)

    def forget(self, before: float) -> None:
        self._slices[self._key(before)] -= 1

    def silent(self, now: float) -> tuple[int, int]:
        """Devices that were not heard for three quarters of `silence_s`, and all that ever were:
        an outage is seen here before the first device that it took along is called silent.
        """
        oldest = self._key(now) - 6
        quiet = sum(count for key, count in self._slices.items() if key < oldest)
        return quiet, sum(self._slices.values())

    def _key(self, at: float) -> int:
        return max(self._floor, int(at // self._slice_s))

    def _sink(self, floor: int) -> None:
        self._floor = floor
        old = [key for key in self._slices if key < floor]
        self._slices[floor] = self._slices.get(floor, 0) + sum(self._slices.pop(k) for k in old)


def is_busy(member: Member) -> bool:
    """It takes one of `in_flight_max` places. Who is away, or waits in the shadow, takes none."""
    if member.phase is Phase.ORDERED:
        return member.online
    if member.phase is Phase.STAGED:
        return member.ordered == "live"
    return member.phase in INSTALLING
