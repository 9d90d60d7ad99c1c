"""One device: the real update machine, with a disk, a link, a clock and faults around it."""

from cloud.fleet.parsing import State as Presence
from edge.updates import starting
from edge.updates.events import (
    Activate,
    Command,
    Event,
    Followed,
    Labour,
    Lasted,
    Offered,
    Proven,
    Prune,
    Report,
    Resumed,
    Stage,
    Started,
    Try,
)
from edge.updates.fleet_view import view_of
from edge.updates.machine import step
from edge.updates.release import Release
from edge.updates.state import State, first_state
from edge.updates.target import Target
from shared.fleet.desired import BYTES_MAX, DesiredModel
from shared.ids import DeviceId
from shared.topics import desired, state
from simulations.fleet import seeds
from simulations.fleet.labour import Bench, duration_s, outcome
from simulations.fleet.models import MODEL, Traits
from simulations.fleet.nature import Nature
from simulations.fleet.reporting import Reporting, payload_of
from simulations.fleet.surroundings import Surroundings

RECONNECT_S, LOOK_S, PROVEN_S, DEATH_S, RETRY_S = 20.0, 2.0, 60.0, 5.0, 60.0
_ONLINE, _OFFLINE = Presence(online=True), Presence(online=False)


class Device:
    """What is on its disk survives `die`; all else begins anew with `boot`."""

    __slots__ = (
        "_around", "_birth", "_labour", "_topic", "_will", "boot_name", "booted_at", "changed_at",
        "desired", "factory", "id", "index", "life", "nature", "reporting", "shadow_started",
        "started", "state", "up",
    )  # fmt: skip

    def __init__(self, index: int, name: str, nature: Nature, around: Surroundings) -> None:
        self.index, self.id, self.nature, self._around = index, name, nature, around
        device = DeviceId(name)
        self._topic = desired(device, "model")
        self.reporting = Reporting(device, around)
        self._birth = state(device), payload_of(around, _ONLINE)
        self._will = state(device), payload_of(around, _OFFLINE)
        # On disk:
        self.factory = around.releases[0]
        self.state: State = first_state(MODEL, self.factory)
        self.state = step(self.state, Followed(None))[0]
        self.desired: DesiredModel | None = None
        # In memory:
        self.up = False
        self.life = 0
        self.booted_at = self.changed_at = 0.0
        self.started = self.shadow_started = self._labour = 0
        self.boot_name = ""

    @property
    def runs(self) -> str:
        """The version that answers."""
        return self.state.active.version

    @property
    def now(self) -> float:
        return self._around.agenda.now

    # Life

    def boot(self) -> None:
        """The agent starts."""
        if self.up:
            return
        around = self._around
        self.up, self.life = True, self.life + 1
        self.boot_name = seeds.name(around.seed, "boot", self.id, self.life)
        self.booted_at, self.started, self.shadow_started = self.now, 0, 0
        self.reporting.boot()
        before = self.runs
        counted, faults = starting.begin(self.state)
        self.state = counted
        if faults:
            opened = next(
                r for r in starting.in_order(counted, self.factory) if r is not counted.active
            )
            self.state = starting.fall_back(counted, opened, faults)
        self._run_active(changed=self.runs != before)
        self._advance(Started())
        self._connect()

    def die(self, away_s: float) -> None:
        """Power goes, or the agent ends; it starts again after `away_s`."""
        if not self.up:
            return
        self.up = False
        self._around.traffic.stop(self.index)
        self._around.network.hang_up(self.id)
        self._around.agenda.after(away_s, self.boot)

    def _later(self, delay_s: float, what: "Event") -> None:
        """Step with an event, unless the agent ended before."""
        life = self.life

        def land() -> None:
            if self.up and self.life == life:
                self._advance(what)

        self._around.agenda.after(delay_s, land)

    # The update machine

    def _advance(self, event: Event) -> None:
        followed = self.state.followed
        self.state, commands = step(self.state, event)
        if self.state.followed != followed and self.desired is not None:
            for watcher in self._around.watchers:
                watcher.took(self, self.desired)
        for command in commands:
            self._do(command)
        self.reporting.changed(self, view_of(self.state, self.state.active))

    def _do(self, command: Command) -> None:
        traffic = self._around.traffic
        match command:
            case Activate():
                self.started += 1
                self._run_active(changed=True)
            case Prune():
                if self.state.candidate is None:
                    traffic.end_shadow(self.index)
            case Report():
                pass  # to the registry, which is not in here; the fleet is told of every change
            case _:
                self._begin(command)

    def _begin(self, command: Labour) -> None:
        around = self._around
        self._labour += 1
        life, labour = self.life, self._labour
        if isinstance(command, Stage | Try):
            self._shadow(command.release, always=isinstance(command, Stage))

        def land() -> None:
            if not self.up or self.life != life or self._labour != labour:
                return
            event = outcome(command, self._bench(command.release), around.rng)
            if event is None:  # staged: the next look is at more samples
                self._advance(Lasted(command.generation))
                around.agenda.after(10 * around.trial_s, land)
                return
            if command.generation == self.state.generation:
                self._advance(event)
                if self.state.phase == "downloading" and self.state.candidate is not None:
                    self._resume()

        around.agenda.after(duration_s(command, self._bench(command.release), around.rng), land)

    def _resume(self) -> None:
        """A download that was cut goes on later."""
        self._later(RETRY_S * self._around.rng.uniform(0.5, 1.5), Resumed())

    def _bench(self, candidate: Release) -> Bench:
        around = self._around
        return Bench(
            self.nature, self._traits(candidate), self._traits(self.state.active), around.probe_s,
            around.trial_s, around.network.reaches(self.id),
        )  # fmt: skip

    def _traits(self, release: Release) -> Traits:
        return self._around.traits[self._around.index[release.version]]

    def _shadow(self, candidate: Release, *, always: bool) -> None:
        traffic, index = self._around.traffic, self._around.index[candidate.version]
        if traffic.candidate[self.index] == index:
            return  # staged before: the run goes on
        if always:
            self.shadow_started += 1
            traffic.begin_shadow(self.index, index, self.now)

    def _run_active(self, *, changed: bool) -> None:
        around = self._around
        traits = self._traits(self.state.active)
        around.traffic.model[self.index] = around.index[traits.version]
        around.traffic.begin(self.index, self.now)
        if changed:
            self.changed_at = self.now
            for watcher in around.watchers:
                watcher.runs(self, traits.version)
        if traits.breaks == "swap":
            life = self.life
            around.agenda.after(DEATH_S, lambda: self._die_of(traits, life))
        elif not self.state.proven:
            self._later(PROVEN_S, Proven())

    def _die_of(self, traits: Traits, life: int) -> None:
        if self.up and self.life == life and self.runs == traits.version:
            self.die(RECONNECT_S)

    # The link

    def _connect(self) -> None:
        around = self._around
        if not self.up or around.network.connected(self.id):
            return
        if not around.network.connect(self, self._birth, self._will, (self._topic,)):
            self._reconnect()
            return
        self.reporting.pending = True
        self.reporting.send(self)
        if self._look_is_due():
            self._later(LOOK_S, Offered(around.releases))
        if self.nature.flaps_s:
            life = self.life
            around.agenda.after(
                around.rng.expovariate(1.0 / self.nature.flaps_s), lambda: self._flap(life)
            )

    def _flap(self, life: int) -> None:
        if self.life == life:
            self._around.network.hang_up(self.id)

    def cut(self) -> None:
        """The connection ended."""
        if self.up:
            self._reconnect()

    def _reconnect(self) -> None:
        around = self._around
        around.agenda.after(RECONNECT_S * around.rng.uniform(0.5, 1.5), self._connect)

    def receive(self, topic: str, payload: object) -> None:
        """A desired state; copies and old ones change nothing."""
        if not self.up or topic != self._topic:
            return
        document = payload
        if isinstance(payload, bytes):
            document = DesiredModel.from_bytes(payload, BYTES_MAX)
        assert isinstance(document, DesiredModel)
        if document.generation <= self.state.followed:
            return
        self.desired = document
        audit = document.audit_share
        around = self._around
        around.traffic.audit[self.index] = audit if audit is not None else around.audit_share
        if self.nature.lie == "version":
            self.reporting.pending = True
        self._advance(
            Followed(
                Target(
                    document.generation, document.version, document.manifest_sha256, document.stage,
                    document.attempt, document.undo, document.rollout,
                ),
                self.factory,
            )
        )  # fmt: skip
        if self._look_is_due():
            self._later(LOOK_S, Offered(around.releases))

    def look(self) -> None:
        """At the registry, as every device does now and then."""
        if self.up and self._around.network.reaches(self.id) and self._look_is_due():
            self._advance(Offered(self._around.releases))

    def _look_is_due(self) -> bool:
        lies = self.nature.lie == "version"  # it takes orders, and does not follow them
        target = self.state.target
        wanted = target is not None and not target.names(self.state.active)
        return wanted and not lies and self.state.candidate is None
