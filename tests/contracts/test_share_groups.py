"""Shared subscriptions (4.8.2)."""

from collections import Counter
from typing import Any

from cloud.broker.codec import packets as p
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients


def test_a_share_group_spreads_its_messages(clients: Clients) -> None:
    name, other = clients.name, clients.paho("p")
    members = [clients.paho(suffix) for suffix in "12"]
    for number, member in enumerate(members):
        member.subscribe(f"$share/g/{name}/#")
        member.subscribe(f"fence/{name}/{number}")
    got: Counter[int] = Counter()
    seen: set[bytes] = set()
    for index in range(100):
        other.publish(f"{name}/{index}", str(index).encode())
        for number, member in enumerate(members):  # nobody falls behind: then the other gets more
            member.publish(f"fence/{name}/{number}", b"fence")
            payloads = member.payloads_until(b"fence")
            got[number] += len(payloads)
            seen.update(payloads)
    assert len(seen) == sum(got.values()) == 100
    assert min(got[0], got[1]) >= 20, got


def test_a_plain_subscription_beside_a_shared_one_is_its_own(clients: Clients) -> None:
    name, other = clients.name, clients.paho("p")
    members = [clients.paho(suffix) for suffix in "12"]
    for member in members:
        member.subscribe(f"$share/g/{name}/x")
        member.subscribe(f"{name}/y")
    other.publish(f"{name}/x", b"one of you")
    other.publish(f"{name}/y", b"both of you")
    got: Counter[bytes] = Counter()
    for member in members:
        got.update([*member.payloads_until(b"both of you"), b"both of you"])
        member.expect_nothing()
    assert got == {b"one of you": 1, b"both of you": 2}


def test_each_group_gets_every_message(clients: Clients) -> None:
    name, other = clients.name, clients.paho("p")
    groups = [clients.paho(suffix) for suffix in "12"]
    for number, member in enumerate(groups):
        member.subscribe(f"$share/g{number}/{name}")
    other.publish(name, b"x")
    assert [member.next().payload for member in groups] == [b"x", b"x"]


def test_a_member_of_several_groups_gets_one_for_each(clients: Clients) -> None:
    client, name = clients.paho(), clients.name
    for group in "ab":
        client.subscribe(f"$share/{group}/{name}")
    client.publish(name, b"x")
    assert client.payloads(2) == [b"x", b"x"]
    client.expect_nothing()


def test_a_dead_members_messages_go_to_another(clients: Clients, can: Capabilities) -> None:
    name, survivor, other = clients.name, clients.paho("2"), clients.paho("p")
    doomed = clients.paho("1", manual_ack=True, will=(name + "/dead", b"dead"))
    survivor.subscribe(name + "/dead")
    doomed.subscribe(f"$share/g/{name}")
    for index in range(5):
        other.publish(name, str(index).encode())
    assert len(doomed.payloads(5)) == 5
    survivor.subscribe(f"$share/g/{name}")
    doomed.break_off()
    got = survivor.payloads_until(b"dead")  # the broker has noticed
    other.publish(name, b"last")
    got += survivor.payloads_until(b"last")
    lost = [b"0", b"1", b"2", b"3", b"4"]
    assert sorted(got) == (lost if can.hands_over_unacknowledged else [])


def test_an_only_members_messages_wait_for_its_return(clients: Clients) -> None:
    lasting: dict[str, Any] = {
        "clean_start": False, "properties": {"session_expiry_interval": 600},
    }  # fmt: skip
    client, other, name = clients.raw(**lasting), clients.paho("p"), clients.name
    client.subscribe(f"$share/g/{name}", 1)
    for index in range(3):
        other.publish(name, str(index).encode())
    first = [client.expect(p.Publish) for _ in range(3)]
    client.acknowledge(first[1])
    client.so_far()
    client.break_off()
    again = [one for one in clients.raw(**lasting).so_far() if isinstance(one, p.Publish)]
    assert [(one.payload, one.packet_id, one.dup) for one in again] == [
        (b"0", first[0].packet_id, True), (b"2", first[2].packet_id, True),
    ]  # fmt: skip


def test_a_member_that_left_gets_nothing_new(clients: Clients) -> None:
    name, other = clients.name, clients.paho("p")
    stays, leaves = clients.paho("1"), clients.paho("2")
    for member in (stays, leaves):
        member.subscribe(f"$share/g/{name}")
    leaves.unsubscribe(f"$share/g/{name}")
    for index in range(4):
        other.publish(name, str(index).encode())
    assert stays.payloads(4) == [b"0", b"1", b"2", b"3"]
    leaves.expect_nothing()


def test_malformed_share_filters_are_refused(clients: Clients, can: Capabilities) -> None:
    for topic_filter in ("$share/g", "$share//t", "$share/g+/t", "$share/g/"):
        client = clients.raw()
        client.send(p.Subscribe(1, (p.Subscription(topic_filter, 1),)))
        answer = client.read()
        if can.checks_share_filters:
            assert answer == p.Suback(1, (0x8F,))
            assert client.so_far() == []
        else:
            assert answer in (p.Suback(1, (1,)), p.Disconnect(0x81))


def test_no_local_on_a_shared_subscription_closes(clients: Clients, can: Capabilities) -> None:
    client = clients.raw()
    wanted = p.Subscription(f"$share/g/{clients.name}", 1, no_local=True)
    client.send(p.Subscribe(1, (wanted,)))
    if can.checks_share_filters:
        assert client.end_reason() == 0x82  # 3.8.3-4
    else:
        assert client.expect(p.Suback).reasons == (1,)
