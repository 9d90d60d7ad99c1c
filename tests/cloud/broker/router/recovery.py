"""The reference after a crash: what was acknowledged is there, and what is there goes on."""

from collections import Counter
from collections.abc import Iterable

from tests.cloud.broker.router.reference import Owed, Reference
from tests.cloud.broker.store.batches import Model as Stored


def hold_to_promises(reference: Reference, stored: Stored, gone: Iterable[int], now: float) -> None:
    """Hold what the store kept to what was acknowledged, and go on from there.

    `gone`: shared messages that were with a session which does not outlive its connection.
    """
    rows: dict[str, Counter[tuple[int, str]]] = {}
    for row in stored.deliveries.values():
        if row.message_id is not None:
            number = int(stored.messages[row.message_id].payload)
            rows.setdefault(row.client_id, Counter())[number, row.share] += 1
    for client_id, life in reference.lives.items():
        promised = Counter(
            (one.number, "")
            for one in life.owed
            if one.qos and one.number in reference.acknowledged and not one.is_late(now)
        )
        if life.expiry_s > 0:
            assert not promised - rows.get(client_id, Counter()), "acknowledged and lost"
    shared = {number for one in rows.values() for number, share in one if share}
    for number, one in reference.shared.items():
        safe = one.may_be_lost or one.is_late(now) or number in gone
        assert safe or number not in reference.acknowledged or number in shared, f"lost {number}"
    for topic, said in reference.said.items():
        kept = stored.retained.get(topic)
        if said and said[0].number in reference.acknowledged:
            expired = said[0].expires_at is not None and said[0].expires_at <= now
            assert kept is not None or expired, f"retained {said[0].number} lost"
        if kept is not None:
            number = int(stored.messages[kept].payload)
            assert number in [one.number for one in said], f"retained {number} came back"
    _go_on(reference, stored)


def _go_on(reference: Reference, stored: Stored) -> None:
    """Owe what the store holds, no more and no less."""
    lives, reference.lives, shared, reference.shared = reference.lives, {}, reference.shared, {}
    for client_id in stored.sessions:
        life = reference.lives[client_id] = lives[client_id]
        message_id = stored.sessions[client_id].will_message_id
        will = stored.messages[message_id] if message_id is not None else None
        if life.will is not None:
            assert will is not None, "a will is lost"
            assert int(will.payload) == life.will.number
        if will is not None:  # perhaps it was said, which nobody remembers
            life.will = Owed(int(will.payload), will.topic, will.qos, False, will.publisher, None)
        before = [*life.owed, *(one for one in life.inflight.values() if one is not None)]
        before += shared.values()
        life.owed, life.inflight, life.is_connected = [], {}, False
        for row in sorted(stored.deliveries.values()):
            if row.client_id != client_id:
                continue
            if row.message_id is None:
                life.inflight[row.packet_id] = None
                continue
            message = stored.messages[row.message_id]
            group = row.share.split("/")[1] if row.share else ""
            number = int(message.payload)
            same = [one for one in before if (one.number, one.group, one.qos) == (
                number, group, row.qos)]  # fmt: skip
            one = same[0] if same else Owed(
                number, message.topic, row.qos, row.retain, message.publisher, None, group,
            )  # fmt: skip
            if same:
                before.remove(one)
            one.holder = client_id if group and row.packet_id and row.qos == 2 else ""
            one.is_sent = bool(row.packet_id) and (not group or bool(one.holder))
            if row.packet_id:
                life.inflight[row.packet_id] = one
            if group:
                reference.shared[number] = one
            else:
                life.owed.append(one)
    numbers = {topic: int(stored.messages[one].payload) for topic, one in stored.retained.items()}
    for topic, said in reference.said.items():
        reference.said[topic] = [one for one in said if one.number == numbers.get(topic)]
    reference.retained = {topic: said[0] for topic, said in reference.said.items() if said}
    reference.acknowledged.update(numbers.values())
