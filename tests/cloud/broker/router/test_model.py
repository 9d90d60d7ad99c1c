"""The rules of the whole broker against a reference, packets in and packets out, crashes included.

Clients of both versions connect, break off, take over, subscribe, publish, acknowledge late or
never; time passes; the durable broker loses its memory and goes on from what its store was told.
`Reference` says who must get what; here is what is done, and what must hold after each step.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from cloud.broker.session import outgoing
from tests.cloud.broker.router.broker_rules import BrokerRules
from tests.cloud.broker.router.driver import PLENTY
from tests.cloud.broker.router.recovery import hold_to_promises
from tests.cloud.broker.router.situations import WALL_S, WHO


class DurableBrokerRules(BrokerRules):
    """A broker with a store, which may crash."""

    is_durable = True

    def __init__(self) -> None:
        super().__init__()
        self.volatile: set[int] = set()
        """Shared messages that were with a member without a lasting session since they were last
        on disk: a message is as durable as the session it was given to."""

    @invariant()
    def note_what_is_volatile(self) -> None:
        for session in self.router.sessions.values():
            if session.changes is None:
                shared = (one.message for one in session.waiting() if one.share is not None)
                self.volatile.update(int(one.payload) for one in shared)

    @rule()
    def hand_over(self) -> None:
        """The store takes what has changed; it is not on disk yet."""
        assert self.changes is not None
        if not self.changes.is_empty:
            self.handed.append(self.changes.hand(self.now, self.now + WALL_S))

    @rule()
    def write(self) -> None:
        """The store has written the oldest group that it was handed."""
        if self.handed:
            assert self.changes is not None
            batch = self.handed.pop(0)
            self.stored.write(batch)
            shared = {row.message_id for row in self.stored.deliveries.values() if row.share}
            self.volatile -= {int(self.stored.messages[one].payload) for one in shared if one}
            self.changes.committed(batch.number)

    def settle(self) -> None:
        self.hand_over()
        while self.handed:
            self.write()

    @rule(readers=st.lists(WHO, max_size=3))
    def crash(self, readers: list[int]) -> None:
        """The broker's memory and all connections are gone, what was read a moment ago is not."""
        for who in readers if any(one.connection for one in self.drivers.values()) else ():
            self.read(who, PLENTY)
        for driver in self.drivers.values():
            driver.connection = None
            doubtful = [key for key, (one, _) in driver.outgoing.items() if one.qos == 1]
            for packet_id in doubtful:
                del driver.outgoing[packet_id]
        hold_to_promises(self.reference, self.stored, self.volatile, self.now)
        self.start()
        for name, life in self.reference.lives.items():
            ends_at = self.router.sessions[name].ends_at
            assert ends_at is not None
            assert life.ends_at is None or ends_at >= life.ends_at
            life.ends_at, life.will_at = ends_at, self.router.sessions[name].will_at
        self.router.expire(self.now)
        self.reference.expire(self.now)

    @invariant()
    def the_store_holds_what_memory_does(self) -> None:
        """Once all is written: nothing more, which would be a leak, and nothing less."""
        if self.handed or self.changes is None or not self.changes.is_empty:
            return
        stored, sessions = self.stored, self.router.sessions
        lasting = {name: one for name, one in sessions.items() if one.changes is not None}
        assert set(stored.sessions) == set(lasting)
        assert set(stored.subscriptions) == {
            (name, one) for name, session in lasting.items() for one in session.subscriptions
        }
        assert stored.received == {
            (name, one) for name, session in lasting.items() for one in session.received
        }
        rows = sorted(
            (row.client_id, row.packet_id, row.message_id is not None)
            for row in stored.deliveries.values()
        )
        assert rows == sorted(
            [(name, key, one.delivery is not None) for name, session in lasting.items()
             for key, one in session.inflight.items()]
            + [(name, 0, True) for name, session in lasting.items() for _ in session.queue]
        )  # fmt: skip
        named = {row.message_id for row in stored.deliveries.values()} - {None}
        wills = {row.will_message_id for row in stored.sessions.values()} - {None}
        assert set(stored.messages) == named | wills | set(stored.retained.values())


@pytest.mark.parametrize("rules", [BrokerRules, DurableBrokerRules])
def test_the_broker_keeps_its_rules(
    rules: type[BrokerRules], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "PACKET_ID_MAX", 7)  # they wrap around all the time
    run_state_machine_as_test(
        rules, settings=settings(max_examples=60, stateful_step_count=30, deadline=None)
    )
