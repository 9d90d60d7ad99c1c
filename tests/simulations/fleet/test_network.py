from random import Random

import pytest

from simulations.fleet.agenda import EPOCH, Agenda
from simulations.fleet.network import Network, Weather


class Client:
    def __init__(self, name):
        self.id, self.got, self.cuts = name, [], 0

    def receive(self, topic, payload):
        self.got.append((topic, payload))

    def cut(self):
        self.cuts += 1


@pytest.fixture
def agenda():
    return Agenda()


@pytest.fixture
def network(agenda):
    return Network(agenda, Random(1), inbox_max=5)


def joined(network, name="a"):
    client = Client(name)
    assert network.connect(
        client, (f"up/{name}", "here"), (f"up/{name}", "gone"), (f"down/{name}",)
    )
    return client


def test_what_is_retained_reaches_who_comes_later(agenda, network):
    assert network.resubscribe()
    assert network.command("down/a", "new", "a")
    client = joined(network)
    agenda.run_until(EPOCH + 10)
    assert client.got == [("down/a", "new")]


def test_a_message_does_not_reach_a_later_connection(agenda, network):
    network.resubscribe()
    client = joined(network)
    network.command("down/a", "new", "a")
    network.hang_up("a")
    agenda.run_until(EPOCH + 10)
    assert client.got == []
    assert client.cuts == 1


def test_a_will_is_published_when_a_connection_ends(network):
    joined(network)
    network.hang_up("a")
    assert network.retained["up/a"] == "gone"


def test_a_broker_that_forgets_has_neither_messages_nor_sessions(network):
    joined(network)
    network.restart(forgets=True)
    assert network.retained == {}
    assert not network.connected("a")


def test_the_queue_for_a_region_that_is_away_is_bounded_and_loses_the_oldest(network):
    joined(network)
    for number in range(9):
        network.publish("a", f"tel/{number}", number, retained=False)
    network.resubscribe()
    assert [payload for _, payload in network.take(3)] == [4, 5, 6]
    assert network.inbox_dropped == 5


def test_what_was_not_acknowledged_comes_again_after_a_kill(network):
    network.resubscribe()
    joined(network)
    first = network.take(10)
    network.control_gone()
    network.resubscribe()
    assert network.take(10)[: len(first)] == first


def test_a_lost_message_cuts_its_sender_who_hears_of_it(network):
    client = joined(network)
    network.weather = Weather(lost=1.0)
    assert not network.publish("a", "tel", 1, retained=False)
    assert client.cuts == 1


def test_copies_and_overtaking_happen_to_subscribers(agenda, network):
    network.resubscribe()
    client = joined(network)
    network.weather = Weather(twice=0.5, reordered=0.5, late_s=100.0)
    for number in range(50):
        network.command("down/a", number, "a")
    agenda.run_until(EPOCH + 200)
    got = [payload for _, payload in client.got]
    assert set(got) == set(range(50))
    assert len(got) > 50
    assert got != sorted(got)


def test_who_is_behind_a_partition_does_not_connect(network):
    network.apart.add("a")
    assert not network.connect(Client("a"), ("up/a", 1), ("up/a", 0), ())
