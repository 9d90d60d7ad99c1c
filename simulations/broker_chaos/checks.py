"""What must be true of every storm. Each check reads the history alone and words what it finds.

Storm first, then healing, then these: they do not know what the storm did, only what clients saw.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from simulations.broker_chaos.history import FAILURE, NOBODY, ROLES, History, number, plain
from simulations.broker_chaos.journal import Event, Saw
from simulations.broker_chaos.plan import PUBLISHERS, may

WILL_NEEDS_NS: Final = 3_000_000_000
"""A broker killed this soon after a connection broke may not have kept its will."""
FRESH: Final = "fresh"
"""The reader that comes once all is quiet."""


@dataclass(slots=True)
class Verdict:
    """What a check looked at, and what was wrong."""

    name: str
    looked_at: int
    wrong: list[str] = field(default_factory=list)
    note: str = ""


def _owed(history: History) -> Iterator[tuple[Event, Event, str, int]]:
    """Give each acknowledged message with each durable reader that was subscribed throughout."""
    readers = {role.topic: history.readers(role.topic) for role in PUBLISHERS}
    for sent in history.succeeded():
        for role, since, qos in readers.get(sent.topic, ()):
            if since < sent.at and not role.may_miss:
                yield sent, history.acked[sent.message], role.client_id, min(qos, sent.code)


def at_least_once(history: History) -> Verdict:
    """QoS 1, acknowledged: every durable subscriber has it."""
    verdict = Verdict("QoS 1 acknowledged: delivered at least once", 0)
    for sent, acked, client_id, qos in _owed(history):
        if qos != 1:
            continue
        verdict.looked_at += 1
        if acked.code == NOBODY:
            verdict.wrong.append(f"{_who(sent)}: told 0x10, yet {client_id} was subscribed")
        elif not history.copies[client_id][sent.message]:
            verdict.wrong.append(f"{_who(sent)}: acknowledged at {acked.at / 1e9:.3f} s, never "
                                 f"reached {client_id}")  # fmt: skip
    return verdict


def exactly_once(history: History) -> Verdict:
    """QoS 2: one copy of each that completed, and never two of any."""
    verdict = Verdict("QoS 2 completed: delivered exactly once", 0)
    for sent, acked, client_id, qos in _owed(history):
        if qos == 2:
            verdict.looked_at += 1
            if not history.copies[client_id][sent.message]:
                verdict.wrong.append(f"{_who(sent)}: completed at {acked.at / 1e9:.3f} s, never "
                                     f"reached {client_id}")  # fmt: skip
    for client_id, events in history.received.items():
        if client_id in ROLES:
            for message in {event.message for event in events if event.code == 2}:
                copies = history.copies[client_id][message]
                if copies > 1 and message in history.sent:
                    times = [f"{e.at / 1e9:.3f}" for e in events if e.message == message]
                    verdict.wrong.append(f"{_who(history.sent[message])}: reached {client_id} "
                                         f"{copies} times, at {', '.join(times)} s")  # fmt: skip
    return verdict


def shared(history: History) -> Verdict:
    """Acknowledged and matching a share group: some member has acknowledged it."""
    verdict = Verdict("share group: each message at one member or more", 0)
    for publisher in PUBLISHERS:
        members: dict[str, int] = {}
        for role in ROLES.values():
            since = history.subscribed(role.client_id, publisher.topic) if role.is_member else None
            if since is not None:
                members[role.client_id] = since[0]
        if not members:
            continue
        first = min(members.values())
        for sent in history.succeeded():
            if sent.topic == publisher.topic and sent.at > first:
                verdict.looked_at += 1
                if not any(history.copies[one][sent.message] for one in members):
                    verdict.wrong.append(f"{_who(sent)}: no member of the group has it")
    return verdict


def in_order(history: History) -> Verdict:
    """First deliveries of a publisher's topic come in the order in which they were sent (4.6)."""
    verdict = Verdict("order of each publisher and topic kept", 0)
    for client_id, role in ROLES.items():
        if role.is_member:
            continue
        last: dict[str, str] = {}
        seen: set[str] = set()
        for event in history.received.get(client_id, ()):
            if event.message in seen or event.message not in history.sent:
                continue
            seen.add(event.message)
            verdict.looked_at += 1
            before = last.get(event.topic)
            if before is not None and number(event.message) < number(before):
                verdict.wrong.append(f"{client_id} got {event.message} first at "
                                     f"{event.at / 1e9:.3f} s, after {before}")  # fmt: skip
            last[event.topic] = event.message
    return verdict


def retained(history: History) -> Verdict:
    """Who subscribes gets the last acknowledged value of a topic, or a later one."""
    verdict = Verdict("retained: the last acknowledged value, or a later one", 0)
    topics = {role.topic: role.client_id for role in PUBLISHERS if role.retain}
    acks: dict[str, list[Event]] = defaultdict(list)
    for event in history.acked.values():
        if event.topic in topics and event.code < FAILURE:
            acks[event.topic].append(event)
    for client_id, life in history.lives.items():
        if client_id in ROLES:
            continue
        for event in life:
            if event.saw is not Saw.SUBSCRIBED or event.topic != "state/#" or event.code >= FAILURE:
                continue
            for topic, acked in acks.items():
                due = max((number(one.message) for one in acked if one.at < event.at), default=0)
                got = [
                    number(one.message)
                    for one in history.received.get(client_id, ())
                    if one.topic == topic
                    and one.detail == "retain"
                    and one.at > event.at
                    and one.message in history.sent
                ]
                verdict.looked_at += bool(got)
                if got and max(got) < due:
                    verdict.wrong.append(f"{client_id} got value {max(got)} of {topic} at "
                                         f"{event.at / 1e9:.3f} s, {due} was acknowledged")  # fmt: skip
                elif not got and due and client_id == FRESH:
                    verdict.wrong.append(f"{FRESH} got no value of {topic}, {due} is due")
    return verdict


def allowed(history: History) -> Verdict:
    """Nobody has what the ACL forbids, and nobody published where it forbids."""
    verdict = Verdict("ACL: nothing reached whom it forbids", 0)
    for client_id, events in history.received.items():
        user = history.users[client_id]
        topics: dict[str, bool] = {}
        for event in events:
            verdict.looked_at += 1
            if event.topic not in topics:
                topics[event.topic] = may(user, client_id, "read", event.topic)
            if not topics[event.topic]:
                verdict.wrong.append(f"{client_id} ({user}) got {event.message} on {event.topic}")
            if event.message.startswith("evil/"):
                verdict.wrong.append(f"{client_id} got {event.message}, which was forbidden")
    return verdict


def refusals(history: History) -> Verdict:
    """What the ACL forbids is refused in so many words."""
    verdict = Verdict("ACL: SUBSCRIBE and PUBLISH refused", 0)
    for event in history.refused:
        verdict.looked_at += 1
        if event.code != 0x87:
            verdict.wrong.append(f"{event.client} published and heard {event.code:#x}")
    for client_id, life in history.lives.items():
        user = history.users.get(client_id, "")
        for event in life:
            if user == "intruder" and event.saw is Saw.SUBSCRIBED:
                verdict.looked_at += 1
                is_open = may(user, client_id, "read", plain(event.topic))
                if is_open != (event.code < FAILURE):
                    verdict.wrong.append(f"{client_id} asked for {event.topic} and heard "
                                         f"{event.code:#x}")  # fmt: skip
    return verdict


def kept(history: History) -> Verdict:
    """A durable session is present whenever its client comes back."""
    verdict = Verdict("durable sessions: present at every return", 0)
    first_ack: dict[str, int] = {}
    for event in history.acked.values():
        first_ack[event.client] = min(event.at, first_ack.get(event.client, event.at))
    for client_id in (*ROLES, *(role.client_id for role in PUBLISHERS)):
        is_known = False
        for event in history.lives[client_id]:
            if event.saw is Saw.SUBSCRIBED:
                is_known = True
                continue
            verdict.looked_at += 1
            promised = is_known or first_ack.get(client_id, event.at) < event.at
            if promised and not event.code:
                verdict.wrong.append(f"{client_id} came back at {event.at / 1e9:.3f} s and its "
                                     "session was gone")  # fmt: skip
    return verdict


def answered(history: History) -> Verdict:
    """Every publish is answered while its connection lasts."""
    verdict = Verdict("every publish answered while its connection lasts", len(history.acked))
    for event in history.silent:
        verdict.wrong.append(f"{event.message} waited over 9 s, until {event.at / 1e9:.3f} s")
    return verdict


def wills(history: History) -> Verdict:
    """A broken connection's will is published, that of a clean end is not."""
    verdict = Verdict("wills: said when broken, kept when clean", 0)
    deaths = [event.at for event in history.kills if event.client == "broker"]
    for will in history.wills:
        risky = any(will.at - 1e9 < at < will.at + WILL_NEEDS_NS for at in deaths)
        for role, since, _ in history.readers(will.topic):
            got = history.copies[role.client_id][will.message]
            if will.detail == "clean":
                verdict.looked_at += 1
                if got:
                    verdict.wrong.append(f"{role.client_id} got {will.message}, which left cleanly")
            elif will.detail == "broken" and not risky and since < will.at:
                verdict.looked_at += 1
                if not got:
                    verdict.wrong.append(f"{role.client_id} never got {will.message}, broken at "
                                         f"{will.at / 1e9:.3f} s")  # fmt: skip
    return verdict


def _who(sent: Event) -> str:
    return f"{sent.message} of {sent.client} (sent {sent.at / 1e9:.3f} s, {sent.topic})"


CHECKS: Final[tuple[Callable[[History], Verdict], ...]] = (
    at_least_once, exactly_once, shared, in_order, retained, allowed, refusals, kept, wills, answered,
)  # fmt: skip
