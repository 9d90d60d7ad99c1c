"""What is handed to the store, and when those who wait for it are told."""

import pytest

from cloud.broker.codec.packets import Subscription
from cloud.broker.session.changes import SETTLING_MAX, Changes
from cloud.broker.session.messages import Delivery, Kept, Message


class Waiter:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def owed(changes: Changes, message: Message, client_id: str = "c") -> Delivery:
    delivery = Delivery(message, 1, False, (), None, 1)
    changes.owe(client_id, delivery)
    return delivery


def kept(message: Message) -> Kept:
    assert message.kept is not None
    return message.kept


def message() -> Message:
    return Message("t", b"x", 1)


def test_what_comes_and_goes_between_two_groups_is_never_written() -> None:
    changes, one, woken = Changes(), message(), Waiter()
    delivery = owed(changes, one)
    assert not kept(one).holds
    kept(one).call_when_held(woken)
    changes.settle(delivery)
    assert woken.count
    assert kept(one).holds
    assert changes.is_empty


def test_a_message_on_its_way_to_disk_holds_once_it_is_there() -> None:
    changes, one, woken = Changes(), message(), Waiter()
    delivery = owed(changes, one)
    kept(one).call_when_held(woken)
    batch = changes.hand(0, 0)
    assert len(batch.messages) == len(batch.deliveries) == 1
    assert not kept(one).holds
    changes.committed(batch.number)
    assert woken.count
    assert kept(one).holds
    changes.settle(delivery)
    gone = changes.hand(0, 0)
    assert gone.messages_gone == [batch.messages[0].message_id]
    assert gone.deliveries_gone == [batch.deliveries[0].delivery_id]


def test_a_promise_is_kept_though_nothing_of_its_group_is_left() -> None:
    changes, one, woken = Changes(), message(), Waiter()
    delivery = owed(changes, one)
    promise = changes.promise()
    assert promise is not None
    promise.call_when_held(woken)
    changes.settle(delivery)
    assert not changes.is_empty, "somebody waits"
    changes.committed(changes.hand(0, 0).number)
    assert promise.holds
    assert woken.count == 1


@pytest.mark.parametrize("is_committed_first", [True, False])
def test_a_message_handed_on_in_one_breath_is_as_safe_as_it_was(
    *, is_committed_first: bool
) -> None:
    changes, one, woken = Changes(), message(), Waiter()
    delivery = owed(changes, one, "dying")
    kept(one).call_when_held(woken)
    first = changes.hand(0, 0)
    if is_committed_first:
        changes.committed(first.number)
    changes.settle(delivery)
    again = owed(changes, one, "heir")
    if not is_committed_first:
        assert not kept(one).holds
        changes.committed(first.number)
    assert kept(one).holds
    assert woken.count
    second = changes.hand(0, 0)
    assert second.deliveries_gone == [first.deliveries[0].delivery_id]
    assert second.deliveries[0].client_id == "heir"
    assert second.messages_gone == [first.messages[0].message_id]
    changes.committed(second.number)
    changes.settle(again)
    assert changes.hand(0, 0).messages_gone == [second.messages[0].message_id]


def test_a_message_handed_on_before_it_was_written_waits_for_its_group() -> None:
    changes, one, woken = Changes(), message(), Waiter()
    delivery = owed(changes, one, "dying")
    kept(one).call_when_held(woken)
    changes.settle(delivery)
    owed(changes, one, "heir")
    assert not kept(one).holds
    changes.committed(changes.hand(0, 0).number)
    assert kept(one).holds


def test_a_retained_message_does_not_hold_on_to_who_published_it() -> None:
    changes, one = Changes(), message()
    changes.retained("t", one)
    kept(one).call_when_held(Waiter())
    changes.committed(changes.hand(0, 0).number)
    assert kept(one).waiting == []


def test_the_last_word_on_a_row_is_the_one_written() -> None:
    changes = Changes()
    changes.subscribed("c", Subscription("t", 1), 0)
    changes.subscribed("c", Subscription("t", 2), 7)
    changes.received("c", 5, is_open=True)
    changes.received("c", 5, is_open=False)
    batch = changes.hand(0, 0)
    assert [(one.options, one.identifier) for one in batch.subscriptions] == [(2, 7)]
    assert (batch.received, batch.received_gone) == ([], [("c", 5)])


def test_times_are_written_as_unix_seconds() -> None:
    changes = Changes()
    owed(changes, Message("t", b"x", 1, expires_at=15.0))
    assert changes.hand(10.0, 1_000.0).messages[0].expires_at == 1_005.0


def test_only_what_was_sent_and_not_acknowledged_may_settle() -> None:
    changes = Changes()
    sent = owed(changes, message())
    assert not changes.may_settle, "its client is away"
    sent.packet_id = 1
    changes.sent(sent)
    assert changes.may_settle
    waiting = owed(changes, message())
    assert not changes.may_settle
    changes.settle(waiting)
    assert changes.may_settle
    assert changes.promise() is not None
    assert not changes.may_settle, "somebody waits for the group"


def test_many_do_not_settle_soon() -> None:
    changes = Changes()
    for index in range(SETTLING_MAX + 1):
        assert changes.may_settle
        owed(changes, message()).packet_id = index + 1
    assert not changes.may_settle
