"""What the broker may rely on in a snapshot, and what has to go so that it may. Pure.

Batches are whole or absent on disk, so nothing is found here unless a batch itself was not
consistent, or somebody edited the file. A broker must start all the same.
"""

from dataclasses import dataclass, field

from cloud.broker.session.records import Batch, Snapshot


@dataclass(slots=True)
class Gone:
    """What was left out, as the batch that deletes it; and how many rows of each kind."""

    batch: Batch = field(default_factory=lambda: Batch(0))
    counts: dict[str, int] = field(default_factory=dict)


def consistent(stored: Snapshot) -> tuple[Snapshot, Gone]:
    """Leave out rows that belong to nothing.

    A delivery without its message or session, a subscription or received packet id without its
    session, a retained topic without its message, a message that nothing names. A session whose
    will is missing stays, without a will.
    """
    gone = Gone()
    batch, counts = gone.batch, gone.counts
    sessions = {row.client_id for row in stored.sessions}
    messages = {row.message_id for row in stored.messages}
    messages_or_none = messages | {None}

    kept = Snapshot(sessions=stored.sessions)
    kept.deliveries = [
        row for row in stored.deliveries
        if row.message_id in messages_or_none and row.client_id in sessions
    ]  # fmt: skip
    kept.subscriptions = [row for row in stored.subscriptions if row.client_id in sessions]
    kept.received = [row for row in stored.received if row[0] in sessions]
    kept.retained = [row for row in stored.retained if row[1] in messages]
    if not {row.will_message_id for row in stored.sessions} <= messages_or_none:
        kept.sessions = [
            row if row.will_message_id in messages_or_none else row._replace(will_message_id=None)
            for row in stored.sessions
        ]
        batch.sessions = [row for row in kept.sessions if row not in set(stored.sessions)]
        counts["will"] = len(batch.sessions)

    named = {row.message_id for row in kept.deliveries}
    named.update(message_id for _, message_id in kept.retained)
    named.update(row.will_message_id for row in kept.sessions)
    if messages <= named:
        kept.messages = stored.messages
    else:
        kept.messages = [row for row in stored.messages if row.message_id in named]
        batch.messages_gone = sorted(messages - named)
        counts["message"] = len(batch.messages_gone)

    if len(kept.deliveries) < len(stored.deliveries):
        alive = {row.delivery_id for row in kept.deliveries}
        batch.deliveries_gone = [
            row.delivery_id for row in stored.deliveries if row.delivery_id not in alive
        ]
        counts["delivery"] = len(batch.deliveries_gone)
    if len(kept.subscriptions) < len(stored.subscriptions):
        batch.subscriptions_gone = [
            row[:2] for row in stored.subscriptions if row.client_id not in sessions
        ]
        counts["subscription"] = len(batch.subscriptions_gone)
    if len(kept.received) < len(stored.received):
        batch.received_gone = [row for row in stored.received if row[0] not in sessions]
        counts["received"] = len(batch.received_gone)
    if len(kept.retained) < len(stored.retained):
        batch.retained_gone = [topic for topic, at in stored.retained if at not in messages]
        counts["retained"] = len(batch.retained_gone)
    return kept, gone
