"""The region's control plane as far as it decides: the real cores around a store in memory.

Each tick takes what came, steps the rollout, commits once and then publishes. It may be killed
between any two of these; whoever comes after it has the store, the broker's queue and nothing else.
"""

from cloud.fleet.broker_memory import OWN_NAME, BrokerMemory
from cloud.fleet.parsing import State, said, whose
from cloud.fleet.presence import PresenceState, changed
from cloud.rollouts.documents import ModelSubject, RolloutSpec, RolloutStatus
from cloud.rollouts.events import (
    Came,
    Event,
    Measured,
    Note,
    Order,
    Removed,
    Reported,
    Restore,
    Returned,
    SetBaseline,
    Target,
    Ticked,
    Told,
    Went,
)  # fmt: skip
from cloud.rollouts.machine import Rollout
from shared.errors import Conflict, HybridgeError
from shared.fleet.reported import ReportedModel
from shared.fleet.telemetry import Telemetry
from shared.ids import DeviceId
from shared.topics import desired as desired_topic
from shared.topics import state as state_topic
from simulations.fleet import desk
from simulations.fleet.region import Region
from simulations.fleet.store import Store, Writes

BATCH = 500_000
"""Messages that one tick takes at most."""
_MARK = state_topic(DeviceId(OWN_NAME))


class Control:
    def __init__(self, store: Store, around: Region) -> None:
        self._store, self._around, self._network = store, around, around.network
        self.rollouts = {
            name: Rollout.from_record(head, list(store.rows[name].values()))
            for name, head in store.heads.items()
        }
        for rollout in self.rollouts.values():
            for watcher in around.watchers:
                watcher.restored(rollout)
        self._memory = BrokerMemory()
        self._writes = Writes()
        self._unsettled = dict.fromkeys(store.devices)
        self._touched: dict[str, dict[str, None]] = {}
        self._heads: dict[str, None] = {}
        self._caught_up = False
        self.refused: dict[str, int] = {}
        """Messages that are none, by the device that its topic names."""

    # Operators

    def create(self, name: str, spec: RolloutSpec, now: float) -> Rollout | None:
        """A draft for the devices that said what they run and are not kept out; None without any."""
        store = self._store
        assert isinstance(spec.subject, ModelSubject)
        targets = [
            Target(device, row.reported.version, row.reported.manifest_sha256)
            for device, row in sorted(store.devices.items())
            if row.reported is not None
            and not row.removed
            and device not in store.away_until
            and row.reported.version != spec.subject.version
        ]
        if not targets:
            return None
        rollout = Rollout.plan_new(name, spec, targets, "operator", now)
        made = {
            "spec": spec.model_dump(mode="json"), "tick_s": self._around.tick_s,
            "targets": [(t.device, t.before, t.before_sha256, t.time_zone) for t in targets],
        }  # fmt: skip
        self._around.record("created", name, made)
        self.rollouts[name] = rollout
        self._touched[name] = {target.device: None for target in targets}
        self._heads[name] = None
        return rollout

    def tell(self, name: str, what: Told, now: float) -> bool:
        """Whether it was taken: what makes no sense now is refused."""
        rollout = self.rollouts.get(name)
        if rollout is None or (what.what == "start" and self.active() is not None):
            return False
        try:
            rollout.check(what, now)
        except Conflict:
            return False
        self._around.record("told", name, what)
        self._step(rollout, what, now)
        return True

    def remove(self, device: str, now: float, *, removed: bool) -> None:
        """Quarantine a device, or let it back."""
        self._writes.removed[device] = removed
        self._tell_all(Removed(device, "quarantined") if removed else Returned(device), now)
        self._unsettled[device] = None

    def active(self) -> Rollout | None:
        """The one that needs its events: it runs, is paused, or its devices go back."""
        return next((r for r in self.rollouts.values() if r.lives), None)

    # Life

    def tick(self, now: float) -> None:
        """Take, step, commit, publish. Raises `Killed` where the fate has it."""
        fate = self._around.fate
        self._catch_up(now)
        self._link(now)
        taken = self._network.take(BATCH)
        for topic, payload in taken:
            self._hear(topic, payload, now)
            fate("between two steps")
        self._let_back(now)
        self._tell_all(Ticked(), now)
        self._settle()
        self._persist()
        fate("before the commit")
        writes, self._writes = self._writes, Writes()
        self._store.commit(writes)
        for device, document in writes.desired.items():
            for watcher in self._around.watchers:
                watcher.ordered(device, document)
        self._network.acknowledge()
        fate("after the commit")
        self._publish()

    def _catch_up(self, now: float) -> None:
        """What the store has of devices, as events: copies change nothing."""
        if self._caught_up:
            return
        self._caught_up = True
        for device, row in self._store.devices.items():
            if row.removed or device in self._store.away_until:
                self._tell_all(Removed(device, "quarantined"), now)
            self._tell_all(Came(device) if row.presence.online else Went(device), now)
            if row.reported is not None:
                self._tell_all(Reported(device, row.reported), now)

    def _link(self, now: float) -> None:
        """Subscribe again after a cut; a broker that forgot everything is told all of it."""
        network = self._network
        if not network.control_linked:
            if not network.resubscribe():
                self._memory.lost()
                return
            self._memory.connected(now)
        step = self._memory.next_step(now, not self._store.unpublished)
        if step == "all":
            self._store.forget_published()
        elif step == "mark" and network.command(_MARK, State(online=True), OWN_NAME):
            self._memory.seen()

    def _hear(self, topic: str, payload: object, now: float) -> None:
        if topic == _MARK:
            self._memory.seen()
            return
        device, kind = whose(topic)
        document = payload
        if isinstance(payload, bytes):
            try:
                document = said(device, kind, payload).document
            except HybridgeError:
                self.refused[device] = self.refused.get(device, 0) + 1
                return
        if device not in self._store.devices:
            self._writes.presence.setdefault(device, PresenceState())
            self._unsettled[device] = None
        match document:
            case State(online=online):
                self._hear_presence(device, now, online=online)
            case ReportedModel():
                self._hear_report(device, document, now)
            case Telemetry():
                self._tell_all(Measured(device, document), now)
            case _:
                raise AssertionError(f"{topic}: {document!r}")

    def _hear_presence(self, device: str, now: float, *, online: bool) -> None:
        before = self._writes.presence.get(device) or self._store.row(device).presence
        after, until = changed(before, online, now, self._around.presence)
        self._writes.presence[device] = after
        if after is not before:
            self._tell_all(Came(device) if online else Went(device), now)
        if until is not None:
            self._writes.away_until[device] = until
            self._tell_all(Removed(device, "it comes and goes too often"), now)

    def _let_back(self, now: float) -> None:
        """Whose quarantine for flapping is over."""
        for device, until in list(self._store.away_until.items()):
            if until <= now and device not in self._writes.away_until:
                self._writes.away_until[device] = None
                if not self._store.row(device).removed:
                    self._tell_all(Returned(device), now)

    def _hear_report(self, device: str, report: ReportedModel, now: float) -> None:
        before = desk.report_of(self._store, self._writes, device)
        if before is not None and report.sequence <= before.sequence:
            return
        self._writes.reported[device] = report
        desired = desk.desired_of(self._store, self._writes, device)
        if before is None or desired is None or report.generation > desired.generation:
            self._unsettled[device] = None
        self._tell_all(Reported(device, report), now)

    def _tell_all(self, event: Event, now: float) -> None:
        active = self.active()
        if active is not None:
            self._step(active, event, now)

    def _step(self, rollout: Rollout, event: Event, now: float) -> None:
        changes = rollout.step(event, now)
        if not isinstance(event, Ticked):
            self._around.record("event", rollout.id, event)
        self._touched.setdefault(rollout.id, {}).update(dict.fromkeys(changes.devices))
        if changes.head:
            self._heads[rollout.id] = None
        for command in changes.commands:
            match command:
                case Order() | Restore():
                    desk.command(self._store, self._writes, rollout, command)
                case SetBaseline():
                    desk.succeed(rollout, self._writes)
                case Note():
                    self._around.record("note", rollout.id, command)
        if not rollout.lives:
            self._unsettled.update(dict.fromkeys(self._store.devices))
        for watcher in self._around.watchers:
            watcher.stepped(rollout, changes)

    # Desired state

    def _settle(self) -> None:
        """What no rollout holds gets what its group has."""
        for device in self._unsettled:
            desk.settle(self._store, self._writes, device, held=self.holds(device))
        self._unsettled.clear()

    def holds(self, device: str) -> bool:
        """Whether a rollout decides: one that lives, or an aborted one whose order is the newest,
        until the group has something else (`cloud/fleet/store/rollout_rows.py`, `parking`).
        """
        desired = desk.desired_of(self._store, self._writes, device)
        ordered_by = None if desired is None else desired.rollout
        for rollout in reversed(self.rollouts.values()):
            if rollout.status is RolloutStatus.SUCCEEDED:
                return False
            if rollout.holds(device) and (rollout.lives or rollout.id == ordered_by):
                return True
        return False

    def _persist(self) -> None:
        if not self._around.keeps:
            self._touched.clear()
            self._heads.clear()
            return
        for name in self._heads:
            self._writes.heads[name] = self.rollouts[name].to_record()
        for name, touched in self._touched.items():
            rollout, rows = self.rollouts[name], self._writes.rows.setdefault(name, {})
            rows.update({device: rollout.device_record(device) for device in touched})
        self._heads.clear()
        self._touched.clear()

    def _publish(self) -> None:
        """What the broker acknowledged is published; the rest waits."""
        network, sent = self._network, {}
        if not network.control_linked:
            return
        for device, generation in list(self._store.unpublished.items()):
            document = self._store.row(device).desired
            assert document is not None
            payload = document.to_bytes() if self._around.on_wire else document
            if not network.command(desired_topic(DeviceId(device), "model"), payload, device):
                break
            sent[device] = generation
            self._around.fate("between two publishes")
        self._store.published(sent)
        self._around.record("published", "", len(sent))
