"""The in-process fuzz finds nothing in the broker as it is, and each fault that is put into it."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cloud.broker.codec import fields
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Disconnect, Publish
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.connection import output
from cloud.broker.connection.connection import Connection
from cloud.broker.router.subscribing import Subscribing
from cloud.broker.session.changes import Changes
from cloud.broker.session.messages import Commit
from cloud.broker.session.session import Session
from simulations.broker_fuzz import stack
from simulations.broker_fuzz.campaign import Episode, Tally
from simulations.broker_fuzz.failures import Failure, save
from simulations.broker_fuzz.mutations import MUTATIONS

SEED = 7


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> Iterator[None]:
    """An episode collects its garbage hundreds of times: not that of all tests before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def findings(count: int) -> tuple[list[Failure], Tally]:
    tally = Tally()
    found = [Episode(SEED, number, tally).run() for number in range(count)]
    return [one for one in found if one is not None], tally


def test_nothing_is_found_and_every_mutation_was_used() -> None:
    failures, tally = findings(80)
    assert [one.words() for one in failures] == []
    used = {label.partition(": ")[2] for label in tally.accepted} | set(tally.refused)
    assert {one.name for one in MUTATIONS} <= used


def test_an_episode_runs_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subscribing, "unsubscribe", lambda *_: 1 / 0)
    [first, *_] = findings(8)[0]
    assert Episode(first.seed, first.episode, Tally()).run() == first
    assert first.kind == "escaped"
    assert "ZeroDivisionError" in first.words()
    assert f"--seed {SEED} --episode {first.episode}" in first.words()


def test_a_finding_is_kept(tmp_path: Any) -> None:
    failure = Failure(1, 2, "a valid PUBLISH", "wrong", "refused", "3000")
    assert '"sent_hex": "3000"' in save(failure, tmp_path / "new").read_text()


def accept_every_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fields.Reader, "string", lambda reader: reader.binary().decode(errors="replace")
    )


def refuse_what_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    def receive(self: Connection, packet: Any, now: float) -> None:
        if isinstance(packet, Publish) and packet.qos == 2:
            raise BrokenRule(ReasonCode.PROTOCOL_ERROR, "no QoS 2 today")
        plain(self, packet, now)

    plain = Connection.receive
    monkeypatch.setattr(Connection, "receive", receive)


def tell_another_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Connection, error: BrokenRule, now: float) -> None:
        plain(self, BrokenRule(ReasonCode.SERVER_BUSY, "no reason"), now)

    plain = Connection.fail
    monkeypatch.setattr(Connection, "fail", fail)


def stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "fail", lambda *_: None)


def tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "_goodbye", lambda *_: None)


def say_a_clients_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(self: Connection, now: float, bytes_max: int) -> list[bytes]:
        out = plain(self, now, bytes_max)
        return [*out, b"\xc0\x00"] if out else out

    plain = Connection.collect
    monkeypatch.setattr(Connection, "collect", collect)


def talk_on_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(self: Connection, now: float, bytes_max: int) -> list[bytes]:
        out = plain(self, now, bytes_max)
        return out or ([encode(Disconnect(0x81))] if self.is_closing else [])

    plain = Connection.collect
    monkeypatch.setattr(Connection, "collect", collect)


def forget_an_identifier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_next_packet_id", lambda _: 1)


def lose_count_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_release", lambda *_: None)


def wake_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Commit, "call_when_held", lambda *_: None)


def never_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_holds", lambda promise: promise is None)


def leave_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changes, "session_gone", lambda *_: None)


def forget_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: Changes, message: Any) -> int:
        message_id = plain(self, message)
        self._messages.pop(message_id, None)
        return message_id

    plain = Changes.keep
    monkeypatch.setattr(Changes, "keep", keep)


def hold_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parser, "held_bytes", property(lambda _: 1 << 30))


def be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "STEP_CPU_S_MAX", 1e-9)


def allocate(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(self: Parser, data: bytes) -> Any:
        self.waste = bytes(8 << 20)  # type: ignore[attr-defined]
        return plain(self, data)

    class Wasteful(Parser):
        pass  # no slots, so `waste` has a place

    plain = Parser.feed
    monkeypatch.setattr(stack, "Parser", Wasteful)
    monkeypatch.setattr(Wasteful, "feed", feed)


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (accept_every_text, "it was accepted"),
    (refuse_what_is_valid, "a valid PUBLISH was refused"),
    (tell_another_reason, "was told as"),
    (stay_open, "still open"),
    (tell_nothing, "was not told"),
    (say_a_clients_word, "the broker sent Pingreq"),
    (talk_on_after_the_end, "it goes on after its good-bye"),
    (forget_an_identifier, "is in use"),
    (lose_count_of_bytes, "counted"),
    (wake_nobody, "did not ask to be read"),
    (never_commit, "the store has nothing to do"),
    (leave_rows, "the store keeps"),
    (forget_a_message, "rows that belong to nothing"),
    (hold_too_much, "the parser holds"),
    (be_slow, "ms of CPU"),
    (allocate, "made it allocate"),
]


@pytest.mark.parametrize(("fault", "says"), FAULTS, ids=[one.__name__ for one, _ in FAULTS])
def test_a_fault_in_the_broker_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    tally, heard = Tally(), set[str]()
    while tally.episodes < 40 and not any(says in what for what in heard):
        found = Episode(SEED, tally.episodes, tally).run()
        heard.add(found.what if found is not None else "nothing")
    assert any(says in what for what in heard), heard
