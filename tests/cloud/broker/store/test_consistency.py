"""What a broker may rely on after its start, whatever the file holds."""

from dataclasses import replace

from cloud.broker.session.records import Batch, Snapshot, SubscriptionRow
from cloud.broker.store.consistency import consistent
from tests.cloud.broker.store.batches import delivery, message, session

WHOLE = Snapshot(
    messages=[message(1), message(2), message(3)],
    deliveries=[delivery(1, "c", 1), delivery(2, "c", None)],
    sessions=[session("c", will=2)],
    subscriptions=[SubscriptionRow("c", "f", 1, 0)],
    received=[("c", 1)],
    retained=[("t", 3)],
)


def test_what_belongs_together_stays() -> None:
    kept, gone = consistent(WHOLE)
    assert kept == WHOLE
    assert gone.batch == Batch(0)
    assert not gone.counts


def test_what_a_missing_session_had_goes() -> None:
    kept, gone = consistent(replace(WHOLE, sessions=[]))
    assert kept == Snapshot(messages=[message(3)], retained=[("t", 3)])
    assert gone.batch == Batch(
        0,
        messages_gone=[1, 2],
        deliveries_gone=[1, 2],
        subscriptions_gone=[("c", "f")],
        received_gone=[("c", 1)],
    )
    assert gone.counts == {"message": 2, "delivery": 2, "subscription": 1, "received": 1}


def test_what_named_a_missing_message_goes_but_a_session_stays() -> None:
    kept, gone = consistent(replace(WHOLE, messages=[]))
    assert kept == replace(
        WHOLE,
        messages=[],
        deliveries=[delivery(2, "c", None)],
        sessions=[session("c", will=None)],
        retained=[],
    )
    assert gone.batch == Batch(
        0, deliveries_gone=[1], sessions=[session("c", will=None)], retained_gone=["t"]
    )
    assert gone.counts == {"will": 1, "delivery": 1, "retained": 1}
