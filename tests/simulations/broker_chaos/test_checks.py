"""Each check finds what it is for, and nothing in a history that is as it should be."""

import pytest

from simulations.broker_chaos import checks
from simulations.broker_chaos.checks import Verdict
from simulations.broker_chaos.history import History
from simulations.broker_chaos.journal import Event, Saw
from simulations.broker_chaos.losses import Losses

S = 1_000_000_000


def joined(*clients: tuple[str, str, str, int]) -> list[Event]:
    """Connections and subscriptions of (client, user, filter, QoS) in the first second."""
    out = []
    for client, user, topic_filter, qos in clients:
        out.append(Event(Saw.CONNECTED, 1, client, detail=user))
        out.append(Event(Saw.SUBSCRIBED, 2, client, topic=topic_filter, code=qos))
    return out


BEGIN = joined(
    ("r0", "reader", "up/#", 2), ("m0", "member", "$share/g/up/+/q1", 1),
    ("m1", "member", "$share/g/up/+/q1", 1), ("lazy", "reader", "slow/both", 1),
)  # fmt: skip


def sent(message: str, topic: str, qos: int = 1, at: int = S, retain: str = "") -> Event:
    return Event(Saw.SENT, at, message.partition("/")[0], message, topic, qos, 1, retain)


def acked(message: str, topic: str, reason: int = 0, at: int = 2 * S) -> Event:
    return Event(Saw.ACKED, at, message.partition("/")[0], message, topic, reason, 1)


def got(client: str, message: str, topic: str, qos: int = 1, at: int = 2 * S) -> Event:
    return Event(Saw.RECEIVED, at, client, message, topic, qos, 1)


ONE = [sent("p0/1", "up/p0/q1"), acked("p0/1", "up/p0/q1")]
TWO = [sent("p2/1", "up/p2/q2", 2), acked("p2/1", "up/p2/q2")]
GOOD = [
    *BEGIN, *ONE, got("r0", "p0/1", "up/p0/q1"), got("m1", "p0/1", "up/p0/q1"),
    *TWO, got("r0", "p2/1", "up/p2/q2", 2),
]  # fmt: skip


def history(*events: Event) -> History:
    out = History()
    out.add(events)
    return out


def test_a_good_history_passes_every_check() -> None:
    good = history(*GOOD)
    assert [one.name for check in checks.CHECKS if (one := check(good)).wrong] == []
    assert good.missing() == 0


def found(verdict: Verdict) -> str:
    [words] = verdict.wrong
    return words


def without(client: str, message: str) -> list[Event]:
    return [
        one for one in GOOD
        if (one.saw, one.client, one.message) != (Saw.RECEIVED, client, message)
    ]  # fmt: skip


def test_a_lost_qos_1_message() -> None:
    lost = history(*without("r0", "p0/1"))
    assert "p0/1 of p0" in found(checks.at_least_once(lost))
    assert "never reached r0" in found(checks.at_least_once(lost))
    assert lost.missing() == 1


@pytest.mark.parametrize("reason", [0x80, 0x97, 0x87])
def test_what_was_refused_may_be_lost(reason: int) -> None:
    events = [sent("p0/1", "up/p0/q1"), acked("p0/1", "up/p0/q1", reason)]
    assert checks.at_least_once(history(*BEGIN, *events)).looked_at == 0


def test_what_was_sent_before_the_subscription_is_not_owed() -> None:
    early = [sent("p0/1", "up/p0/q1", at=0), acked("p0/1", "up/p0/q1")]
    assert checks.at_least_once(history(*BEGIN, *early)).looked_at == 0


def test_told_that_nobody_subscribed() -> None:
    told = [sent("p0/1", "up/p0/q1"), acked("p0/1", "up/p0/q1", 0x10)]
    assert "told 0x10" in found(checks.at_least_once(history(*BEGIN, *told)))


def test_a_lost_qos_2_message() -> None:
    assert "never reached r0" in found(checks.exactly_once(history(*without("r0", "p2/1"))))


@pytest.mark.parametrize("is_completed", [True, False])
def test_a_qos_2_message_twice(*, is_completed: bool) -> None:
    events = [one for one in GOOD if is_completed or one not in TWO[1:]]
    again = got("r0", "p2/1", "up/p2/q2", 2, at=3 * S)
    assert "reached r0 2 times, at 2.000, 3.000 s" in found(
        checks.exactly_once(history(*events, again))
    )


def test_a_message_that_no_member_acknowledged() -> None:
    lost = history(*without("m1", "p0/1"))
    assert "no member of the group has it" in found(checks.shared(lost))
    assert lost.missing() == 1


def test_first_deliveries_out_of_order() -> None:
    events = [got("r0", f"p0/{number}", "up/p0/q1") for number in (3, 2)]
    numbered = [sent(f"p0/{number}", "up/p0/q1") for number in (2, 3)]
    assert "got p0/2 first" in found(checks.in_order(history(*GOOD, *numbered, *events)))


def test_a_second_delivery_may_come_late() -> None:
    events = [got("r0", f"p0/{number}", "up/p0/q1") for number in (2, 3, 2)]
    numbered = [sent(f"p0/{number}", "up/p0/q1") for number in (2, 3)]
    assert not checks.in_order(history(*GOOD, *numbered, *events)).wrong


STATE = [
    one
    for number in (1, 2)
    for one in (
        sent(f"s0/{number}", "state/s0", at=number * S, retain="retain"),
        acked(f"s0/{number}", "state/s0", at=number * S + 1),
    )
]


def look(client: str, at: int, *numbers: int) -> list[Event]:
    """A new subscriber to `state/#` and the retained values that it gets."""
    return [
        Event(Saw.CONNECTED, at, client, detail="guest"),
        Event(Saw.SUBSCRIBED, at, client, topic="state/#", code=1),
        *(
            Event(Saw.RECEIVED, at + 1, client, f"s0/{one}", "state/s0", 1, 1, "retain")
            for one in numbers
        ),
    ]


def test_retained_values() -> None:
    assert not checks.retained(history(*STATE, *look("guest-1", 9 * S, 2))).wrong
    stale = checks.retained(history(*STATE, *look("guest-1", 9 * S, 1)))
    assert "got value 1 of state/s0" in found(stale)
    assert not checks.retained(history(*STATE, *look("guest-1", S + 2, 1))).wrong
    assert not checks.retained(history(*STATE, *look("guest-1", 9 * S))).wrong  # it left early
    assert "got no value" in found(checks.retained(history(*STATE, *look("fresh", 9 * S))))


def test_a_message_for_other_eyes() -> None:
    spied = joined(("intruder-1", "intruder", "open/#", 1))
    verdict = checks.allowed(history(*spied, got("intruder-1", "p0/1", "up/p0/q1")))
    assert "intruder-1 (intruder) got p0/1 on up/p0/q1" in found(verdict)


def test_a_message_from_whom_it_is_forbidden() -> None:
    verdict = checks.allowed(history(*BEGIN, got("r0", "evil/x", "up/p0/q1")))
    assert "evil/x" in found(verdict)


def test_a_false_success_for_an_intruder() -> None:
    answer = Event(Saw.ACKED, S, "intruder-1", "evil/intruder-1", "", 0)
    assert "heard 0x0" in found(checks.refusals(history(answer)))
    assert not checks.refusals(history(answer._replace(code=0x87))).wrong


@pytest.mark.parametrize(("topic_filter", "code"), [("up/#", 1), ("open/#", 0x87)])
def test_a_subscription_that_was_answered_wrong(topic_filter: str, code: int) -> None:
    asked = joined(("intruder-1", "intruder", topic_filter, code))
    assert f"asked for {topic_filter}" in found(checks.refusals(history(*asked)))


def test_a_session_that_was_lost() -> None:
    again = Event(Saw.CONNECTED, 5 * S, "r0", code=0, detail="reader")
    assert "r0 came back" in found(checks.kept(history(*GOOD, again)))
    assert not checks.kept(history(*GOOD, again._replace(code=1))).wrong
    publisher = Event(Saw.CONNECTED, 5 * S, "p0", code=0, detail="p0")
    assert "p0 came back" in found(checks.kept(history(*GOOD, publisher)))
    assert not checks.kept(history(*GOOD, publisher._replace(at=S))).wrong  # nothing acked yet


def will(how: str, at: int = 5 * S) -> Event:
    return Event(Saw.WILL, at, "doomed-1", "will-1", "wills/doomed-1", detail=how)


WATCH = joined(("r0", "reader", "wills/#", 1))


def test_wills() -> None:
    said = got("r0", "will-1", "wills/doomed-1")
    assert not checks.wills(history(*WATCH, will("broken"), said)).wrong
    assert not checks.wills(history(*WATCH, will("clean"))).wrong
    assert "never got will-1" in found(checks.wills(history(*WATCH, will("broken"))))
    assert "left cleanly" in found(checks.wills(history(*WATCH, will("clean"), said)))
    assert not checks.wills(history(*WATCH, will("unknown"), said)).wrong
    killed = Event(Saw.KILLED, 6 * S, "broker")
    assert not checks.wills(history(*WATCH, will("broken"), killed)).wrong


def test_a_publish_that_nobody_answers() -> None:
    silent = Event(Saw.SILENT, 20 * S, "p0", "p0/1", "up/p0/q1")
    assert "p0/1 waited over 9 s" in found(checks.answered(history(*GOOD, silent)))


def test_losses_that_were_not_counted() -> None:
    events = [sent("both/1", "slow/both"), acked("both/1", "slow/both")]
    missed = history(*BEGIN, *events)
    assert not Losses(0, {"lazy": 1}).verdict(missed).wrong
    assert "lazy missed 1 messages" in found(Losses(0, {"lazy": 0}).verdict(missed))
    assert not Losses(9 * S, {}).verdict(missed).wrong  # before the broker's last start
    assert Losses(0, None).verdict(missed).note == "the broker was not asked"
    assert not checks.at_least_once(missed).wrong  # another reads it too
