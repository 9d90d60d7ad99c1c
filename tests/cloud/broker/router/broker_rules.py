"""What clients of a broker do, and what must hold after each step: see `test_model`."""

import itertools
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.router.router import Router
from cloud.broker.session.changes import Changes
from cloud.broker.session.records import Batch, Snapshot
from cloud.broker.session.restore import last_id, restored
from tests.cloud.broker.router.driver import PLENTY, Driver
from tests.cloud.broker.router.reference import Owed, Reference
from tests.cloud.broker.router.situations import (
    CLIENTS,
    EXPIRY_S,
    FILTERS,
    LIMITS,
    NAMES,
    QOS,
    SHARED,
    SHARED_QOS,
    TOPICS,
    TURNS_MAX,
    WALL_S,
    WHO,
)
from tests.cloud.broker.store.batches import Model as Stored
from tests.raw_client import props

SOMEBODY = precondition(lambda self: any(one.connection for one in self.drivers.values()))


class BrokerRules(RuleBasedStateMachine):
    """A broker without a store."""

    is_durable = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.stored = Stored()
        self.handed: list[Batch] = []
        self.reference = Reference()
        self.drivers = {name: Driver(name) for name in CLIENTS}
        self.said = 0
        self.start()

    def start(self) -> None:
        """Start a broker from what is stored."""
        self.handed = []
        stored = self.stored
        snapshot = Snapshot(
            list(stored.messages.values()), sorted(stored.deliveries.values()),
            list(stored.sessions.values()), list(stored.subscriptions.values()),
            sorted(stored.received), list(stored.retained.items()),
        )  # fmt: skip
        self.changes = Changes(last_id(snapshot)) if self.is_durable else None
        self.router = Router(LIMITS, lambda: "made-up", self.changes)
        if self.changes is not None:
            found = restored(
                snapshot, self.changes, LIMITS, self.router.budget, self.now, self.now + WALL_S
            )
            self.router.adopt(found.sessions, found.retained, self.now)

    # What clients do

    @initialize(
        versions=st.tuples(*[st.sampled_from(Version)] * 3),
        subscriptions=st.lists(st.tuples(WHO, FILTERS | SHARED, QOS), min_size=3, max_size=6),
    )
    def everybody_comes(
        self, versions: tuple[Version, ...], subscriptions: list[tuple[int, str, Any]]
    ) -> None:
        """Begin with something to lose."""
        for name, version in zip(CLIENTS, versions, strict=True):
            self.connect(name, version, 50, 3, clean=False)
        for who, topic_filter, qos in subscriptions:
            self.subscribe(who, topic_filter, qos)

    @rule(name=NAMES, version=st.sampled_from(Version), clean=st.booleans(),
          expiry_s=st.sampled_from([0, 5, 50]), window=st.integers(1, 3),
          will=st.none() | st.tuples(TOPICS, QOS, st.sampled_from([0, 2, 20])))  # fmt: skip
    def connect(
        self, name: str, version: Version, expiry_s: int, window: int, *, clean: bool,
        will: tuple[str, Any, int] | None = None,
    ) -> None:  # fmt: skip
        """Come, return or take over."""
        driver, now = self.drivers[name], self.now
        older = driver.connection
        if version is Version.V311:
            expiry_s, window = 0 if clean else LIMITS.session_expiry_s_max, LIMITS.inflight_max
        last, owed = None, None
        if will is not None:
            self.said += 1
            topic, qos, delay_s = will[0], will[1], will[2] if version is Version.V5 else 0
            found = props(will_delay_interval=delay_s) if delay_s else ()
            last = p.Will(topic, str(self.said).encode(), qos, properties=found)
            owed = Owed(self.said, topic, qos, False, name, None), delay_s
        present = self.reference.connect(name, expiry_s, now, clean=clean, will=owed)
        driver.connect(
            self.router, version, now, clean=clean, expiry_s=expiry_s, window=window, will=last
        )
        assert older is None or older.is_closing, "two connections of one client"
        self.settle()
        first, *rest = driver.arrived(now)
        assert isinstance(first, p.Connack)
        assert (first.session_present, first.reason) == (present, 0)
        if not present:
            driver.forget()
        driver.read(rest, self.reference, now)
        for packet_id, (publish, step) in list(driver.outgoing.items()):
            if step == "release":
                driver.send(p.Pubrel(packet_id), now)
            elif publish.qos == 2:
                if packet_id not in self.router.sessions[name].received:  # lost in a crash
                    self.route(driver, publish)
                driver.send(replace(publish, dup=True), now)

    @SOMEBODY
    @rule(who=WHO, expiry_s=st.sampled_from([None, 0, 20]))
    def disconnect(self, who: int, expiry_s: int | None) -> None:
        """Leave in good order, with another expiry perhaps."""
        driver = self.connected(who)
        life = self.reference.lives[driver.client_id]
        changed: dict[str, int] = {}
        if expiry_s is not None and driver.version is Version.V5 and life.expiry_s:
            changed["session_expiry_interval"] = expiry_s
            life.expiry_s = expiry_s
        self.reference.disconnect(driver.client_id, self.now, in_order=True)
        driver.send(p.Disconnect(0, props(**changed)), self.now)
        driver.connection = None
        self.settle()

    @SOMEBODY
    @rule(who=WHO, half_sent=st.booleans())
    def break_off(self, who: int, *, half_sent: bool) -> None:
        """With `half_sent` the broker has written what the client never gets to read."""
        driver = self.connected(who)
        if half_sent and driver.is_woken:
            for packet in driver.arrived(self.now):
                driver.judge(packet, self.reference, self.now)
        self.reference.disconnect(driver.client_id, self.now)
        assert driver.connection is not None
        driver.connection.lost(self.now)
        driver.connection = None

    @SOMEBODY
    @rule(who=WHO, topic_filter=FILTERS | SHARED, qos=QOS)
    def subscribe(self, who: int, topic_filter: str, qos: Any) -> None:
        """Subscribe, or change the QoS."""
        driver = self.connected(who)
        qos = SHARED_QOS.get(topic_filter, qos)
        self.reference.subscribe(driver.client_id, topic_filter, qos, self.now)
        asked = p.Subscribe(driver.packet_id(), (p.Subscription(topic_filter, qos),))
        assert self.asks(driver, asked) == p.Suback(asked.packet_id, (qos,))

    @SOMEBODY
    @rule(who=WHO, topic_filter=FILTERS | SHARED)
    def unsubscribe(self, who: int, topic_filter: str) -> None:
        """Unsubscribe from what may not have been subscribed."""
        driver = self.connected(who)
        known = self.reference.unsubscribe(driver.client_id, topic_filter)
        reasons = () if driver.version is Version.V311 else ((0 if known else 0x11),)
        asked = p.Unsubscribe(driver.packet_id(), (topic_filter,))
        assert self.asks(driver, asked) == p.Unsuback(asked.packet_id, reasons)

    @SOMEBODY
    @rule(who=WHO, topic=TOPICS, qos=QOS, retain=st.booleans(), expires=st.booleans(),
          count=st.integers(1, 4))  # fmt: skip
    def publish(
        self, who: int, topic: str, qos: Any, count: int, *, retain: bool, expires: bool
    ) -> None:
        """Publish."""
        driver = self.connected(who)
        found = props(message_expiry_interval=EXPIRY_S) if expires else ()
        for _ in range(count):
            self.said += 1
            publish = p.Publish(
                topic, str(self.said).encode(), qos, retain and count == 1,
                packet_id=driver.packet_id() if qos else 0,
                properties=found if driver.version is Version.V5 else (),
            )  # fmt: skip
            if qos:
                driver.outgoing[publish.packet_id] = publish, "publish"
            self.route(driver, publish)
            driver.send(publish, self.now)

    @SOMEBODY
    @rule(who=WHO, bytes_max=st.sampled_from([1, 300, PLENTY]))
    def read(self, who: int, bytes_max: int) -> None:
        """Read some."""
        driver = self.connected(who)
        if driver.is_woken:
            driver.read(driver.arrived(self.now, bytes_max), self.reference, self.now)

    @SOMEBODY
    @rule(who=WHO, indices=st.lists(st.integers(0, 2), min_size=1, max_size=4))
    def answer(self, who: int, indices: list[int]) -> None:
        """Acknowledge some."""
        driver = self.connected(who)
        for index in indices:
            driver.answer(index, self.reference, self.now)

    @SOMEBODY
    @rule(who=WHO)
    def release_again(self, who: int) -> None:
        """Send a PUBREL twice."""
        driver = self.connected(who)
        for packet_id, (_, step) in driver.outgoing.items():
            if step == "release":
                driver.send(p.Pubrel(packet_id), self.now)

    @precondition(lambda self: self.now < 1_000)
    @rule(seconds=st.sampled_from([1, 3, 30]))
    def time_passes(self, seconds: int) -> None:
        """Let sessions and messages expire and wills be said, each in its second."""
        for _ in range(seconds):
            self.now += 1
            self.router.expire(self.now)
            self.reference.expire(self.now)
        self.settle()

    @rule()
    def all_return_and_acknowledge(self) -> None:
        """Everybody comes back and reads to the end: nothing that is owed may be missing."""
        for name in list(self.reference.lives):
            if self.drivers[name].connection is None:
                self.connect(name, Version.V5, 50, 3, clean=False)
        for turn in itertools.count():
            self.settle()  # what waits for the disk is not owed by anybody's turn
            if not any(driver.is_busy for driver in self.drivers.values()):
                break
            assert turn < TURNS_MAX, "somebody is woken for nothing, again and again"
            for driver in self.drivers.values():
                if driver.is_busy:
                    driver.read(driver.arrived(self.now), self.reference, self.now)
                    driver.answer(0, self.reference, self.now)
        assert not self.reference.missing(self.now)
        assert not any(session.pending for session in self.router.sessions.values())
        assert self.router.budget.used_bytes == 0

    # What the test does for them

    def connected(self, who: int) -> Driver:
        """Give one of those that are connected."""
        connected = [one for one in self.drivers.values() if one.connection is not None]
        return connected[who % len(connected)]

    def route(self, driver: Driver, publish: p.Publish) -> None:
        """Have the reference route a message."""
        expires_at = self.now + EXPIRY_S if publish.properties else None
        self.reference.publish(
            Owed(
                int(publish.payload), publish.topic, publish.qos, publish.retain, driver.client_id,
                expires_at,
            )
        )  # fmt: skip

    def asks(self, driver: Driver, packet: p.Packet) -> p.Packet:
        """Send a request and give its answer, which may wait for the disk alone."""
        driver.send(packet, self.now)
        self.settle()
        arrived = driver.arrived(self.now)
        kind = p.Suback if isinstance(packet, p.Subscribe) else p.Unsuback
        [answer] = [one for one in arrived if isinstance(one, kind)]
        driver.read([one for one in arrived if one is not answer], self.reference, self.now)
        return answer

    def settle(self) -> None:
        """Have the store write all."""

    # What holds after every step

    @invariant()
    def bytes_are_accounted_for(self) -> None:
        total = 0
        for session in self.router.sessions.values():
            held = sum(one.size_bytes for one in (*session.waiting(), *session.queue_qos_0))
            assert session.held_bytes == held
            total += held
        assert self.router.budget.used_bytes == total

    @invariant()
    def whoever_has_something_to_write_was_woken(self) -> None:
        for driver in self.drivers.values():
            assert driver.connection is None or driver.is_woken or not driver.connection.has_more

    @invariant()
    def sessions_are_those_of_the_reference(self) -> None:
        assert {
            name: session.link is not None for name, session in self.router.sessions.items()
        } == {name: life.is_connected for name, life in self.reference.lives.items()}

    def teardown(self) -> None:
        """All come back, then all end: nothing is left, in memory or in the store."""
        self.all_return_and_acknowledge()
        while any(driver.connection for driver in self.drivers.values()):
            self.break_off(0, half_sent=False)
        self.now += 1_000
        self.router.expire(self.now)
        self.settle()
        assert not self.router.sessions
        assert self.router.budget.used_bytes == 0
