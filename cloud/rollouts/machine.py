"""A rollout: devices move to another version in stages that open on evidence. Sans I/O.

`Rollout.step` takes one event and gives what follows from it. It reads no clock and no random
numbers: the same events give the same commands, and a rollout that is restored from its records
between any two steps goes on as if nothing had been. An event costs O(1), a tick what is due.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from cloud.rollouts import records, views
from cloud.rollouts.clock import kept, missed
from cloud.rollouts.collector import measured
from cloud.rollouts.deadlines import due, expire, listen
from cloud.rollouts.documents import (
    DeviceInRollout,
    ModelSubject,
    Phase,
    RolloutSpec,
    RolloutStatus,
    RolloutView,
)
from cloud.rollouts.events import (
    Came,
    Changes,
    Event,
    Measured,
    Order,
    Removed,
    Reported,
    Returned,
    Target,
    Ticked,
    Told,
    Went,
)
from cloud.rollouts.gate import look
from cloud.rollouts.making import new_run
from cloud.rollouts.member import Member
from cloud.rollouts.operator import check, obey
from cloud.rollouts.orders import release, there_again
from cloud.rollouts.reports import finish, heard_again, reported
from cloud.rollouts.run import Run
from cloud.rollouts.stages import FAILED
from cloud.rollouts.undoing import ended
from cloud.rollouts.windows import opens_at

_STAYS = FAILED | {Phase.UNDONE, Phase.LEFT}
"""A device that failed and is removed then has failed all the same."""


class Rollout:
    def __init__(self, run: Run) -> None:
        """Made by `plan_new` and `from_record`."""
        self._run = run

    @classmethod
    def plan_new(
        cls, rollout_id: str, spec: RolloutSpec, targets: Sequence[Target], by: str, now: float
    ) -> "Rollout":
        """A draft. Raises `Malformed` for a criterion that does not parse or a specification that
        contradicts itself, `Conflict` for no devices.
        """
        return cls(new_run(rollout_id, spec, targets, by, now))

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def spec(self) -> RolloutSpec:
        return self._run.spec

    @property
    def status(self) -> RolloutStatus:
        return self._run.status

    @property
    def undoing(self) -> bool:
        return self._run.undoing

    @property
    def revision(self) -> int:
        return self._run.revision

    @property
    def lives(self) -> bool:
        """It still needs its events: it runs, is paused, or its devices go back."""
        return self._run.active or self._run.undoing

    def check(self, command: Told, now: float) -> None:
        """Raises `Conflict` in words where the command makes no sense now."""
        check(self._run, command, now)

    def step(self, event: Event, now: float) -> Changes:
        """Never raises for what devices send; a copy of an event changes nothing."""
        run = self._run
        run.out, run.touched, run.head = [], {}, False
        now = kept(run, now)
        if self.lives:
            heard = isinstance(event, Reported | Measured | Came | Went)
            missed(run, now, heard=heard)
            listen(run, now, heard=heard)
        self._take(event, now)
        return Changes(
            tuple(run.out),
            {run.members[place].device: run.members[place].phase for place in run.touched},
            run.head,
        )

    def _take(self, event: Event, now: float) -> None:
        run = self._run
        match event:
            case Ticked():
                self._tick(now)
            case Told():
                obey(run, event, now)
            case Reported():
                if member := self._heard(event.device, now):
                    reported(run, member, event.report, now)
                    self._after(member, now)
            case Measured():
                if member := self._heard(event.device, now):
                    self._measured(member, event, now)
                    self._after(member, now)
            case Came():
                if member := self._heard(event.device, now):
                    run.presence(member, online=True)
                    if member.phase is Phase.LEFT and member.ordered and not member.removed:
                        self._again(member, now)
            case Went():
                if member := run.index.get(event.device):
                    run.presence(member, online=False)
            case Removed():
                if member := run.index.get(event.device):
                    self._removed(member, event.why, now)
            case Returned():
                if (member := run.index.get(event.device)) and member.removed:
                    member.removed = False
                    run.touch(member)
                    self._again(member, now, gone=True)
            case _:
                assert_never(event)

    def _heard(self, device: str, now: float) -> Member | None:
        member = self._run.index.get(device)
        if member is None or self._run.started_at is None:
            return None
        if self.lives:
            self._run.heard(member, now)
        return member

    def _tick(self, now: float) -> None:
        run = self._run
        if not self.lives:
            return
        expire(run, now)
        if run.status is RolloutStatus.RUNNING:
            release(run, now)
        look(run, now)
        if run.status is RolloutStatus.RUNNING:
            release(run, now)  # of a stage that has just opened
        ended(run, now)

    def _measured(self, member: Member, event: Measured, now: float) -> None:
        run = self._run
        if not run.active or member.removed:
            return
        tally, subject = event.telemetry.tally, run.spec.subject
        on_it = not isinstance(subject, ModelSubject) or tally.version == subject.version
        if member.phase is Phase.SILENT and member.runs_new and on_it:
            heard_again(run, member, now)
        measured(run, member, event.telemetry, now)

    def _after(self, member: Member, now: float) -> None:
        run = self._run
        if run.active:
            finish(run, member, now)
        if self.lives:
            run.look_at(member, due(run, member))
        ended(run, now)

    def _again(self, member: Member, now: float, *, gone: bool = False) -> None:
        """It had left, and is there. Its order is still out, unless it was `gone`: then it is
        ordered again as any other, when its stage, its window and the rollout let it.
        """
        run = self._run
        if not run.active or member.phase is not Phase.LEFT:
            return
        if member.ordered and not gone:
            there_again(run, member, now)
            return
        if member.ordered and member.runs_new:
            # what is retained for it may have gone with it
            run.out.append(Order(member.device, member.ordered, member.attempt))
            there_again(run, member, now)
            return
        run.move(member, Phase.QUEUED, now, "came back")
        if member.place < run.reached:
            run.enqueue(member, opens_at(run.hours, member.zone, now))
            if run.status is RolloutStatus.RUNNING:
                release(run, now)

    def _removed(self, member: Member, why: str, now: float) -> None:
        run = self._run
        if member.removed:
            return
        member.removed = True
        run.touch(member)
        run.head = True
        if member.phase not in _STAYS and (self.lives or run.status is RolloutStatus.DRAFT):
            run.move(member, Phase.LEFT, now, why)
        ended(run, now)

    def listening(self, now: float) -> None:
        """The region hears devices (again) from now on: it was down, or had lost its broker.

        Silence before is its own. The next step keeps this in the head's record.
        """
        self._run.listening_since = max(now, self._run.stepped_at)

    def holds(self, device: str) -> bool:
        """Whether what the device should have is up to this rollout, not to its group's baseline.

        That is so for devices with an order while it lives; for those that run the new version
        also after it was aborted, until somebody undoes it or the group's baseline is changed.
        """
        run = self._run
        member = run.index.get(device)
        if member is None or member.removed or not member.ordered:
            return False
        return self.lives or (run.status is RolloutStatus.ABORTED and member.runs_new)

    def view(self, now: float) -> RolloutView:
        return views.view(self._run, now)

    def device(self, device: str) -> DeviceInRollout | None:
        member = self._run.index.get(device)
        return member.view() if member is not None else None

    def devices(self) -> Iterator[DeviceInRollout]:
        """In the order in which they move."""
        return (member.view() for member in self._run.members)

    def target(self, device: str) -> Target | None:
        """What the device had: where `Restore` brings it."""
        member = self._run.index.get(device)
        if member is None:
            return None
        return Target(member.device, member.before, member.before_sha256, member.zone)

    def to_record(self) -> bytes:
        """Everything but the devices; JSON."""
        return records.head(self._run)

    def device_record(self, device: str) -> bytes:
        """Raises `KeyError` for a device that is not in it."""
        return self._run.index[device].to_record()

    @classmethod
    def from_record(cls, head: bytes, device_records: Sequence[bytes]) -> "Rollout":
        """The records as the store has them, devices in any order."""
        return cls(records.restored(head, device_records))
