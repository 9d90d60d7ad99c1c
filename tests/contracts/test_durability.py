"""What the embedded broker acknowledged outlives kill -9 (Mosquitto writes its store at intervals).

Each test kills the process and starts another on the same state directory.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from tests.brokers import running_broker
from tests.raw_client import RawClient, found, props


class Broker:
    """One broker after another on one state directory, and the clients of the present one."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._running = running_broker("embedded", state_dir)
        self.address = self._running.__enter__()
        self._clients: list[RawClient] = []

    def client(self, client_id: str, version: Version = Version.V5, **more: Any) -> RawClient:
        """Connect with a session that stays."""
        asked = props(session_expiry_interval=600, **more) if version is Version.V5 else ()
        client = RawClient(
            self.address, p.Connect(client_id, version, clean_start=False, properties=asked)
        )
        self._clients.append(client)
        return client

    def dies(self) -> None:
        """Kill it, and start the next."""
        assert self.address.pid is not None
        os.kill(self.address.pid, signal.SIGKILL)
        for client in self._clients:
            if not client.is_closed:
                client.rest()  # until the kernel has closed what the broker held
        self.close()
        self._running = running_broker("embedded", self._state_dir)
        self.address = self._running.__enter__()

    def close(self) -> None:
        for client in self._clients:
            client.break_off()
        self._clients.clear()
        self._running.__exit__(None, None, None)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker to kill."""
    broker = Broker(tmp_path)
    try:
        yield broker
    finally:
        broker.close()


def present(client: RawClient) -> bool:
    assert client.connack is not None
    return client.connack.session_present


@pytest.mark.parametrize("version", list(Version))
def test_sessions_and_what_waits_in_them_stay(broker: Broker, version: Version) -> None:
    reader, writer = broker.client("r", version), broker.client("w")
    reader.subscribe("t/+")
    reader.break_off()
    levels: list[p.Qos] = [1, 2]
    sent = [(f"t/{index}", str(index).encode(), levels[index % 2]) for index in range(50)]
    for topic, payload, qos in sent:
        assert writer.publish(topic, payload, qos, user_property=("n", "1")) == 0
    broker.dies()
    reader = broker.client("r", version)
    assert present(reader)
    got = []
    for _ in sent:
        publish = reader.expect(p.Publish)
        got.append((publish.topic, publish.payload, publish.qos))
        assert found(publish, "user_property") == ([("n", "1")] if version is Version.V5 else [])
        reader.acknowledge(publish)
    assert got == sent
    writer = broker.client("w")
    assert present(writer)
    assert writer.publish("t/new", b"live") == 0
    assert reader.expect(p.Publish).payload == b"live"


def test_what_was_in_flight_comes_again_under_its_packet_id(broker: Broker) -> None:
    reader, writer = broker.client("r"), broker.client("w")
    reader.subscribe("t")
    for qos in (2, 1, 2):
        writer.publish("t", str(qos).encode(), qos)
    first = [reader.expect(p.Publish) for _ in range(3)]
    reader.send(p.Pubrec(first[0].packet_id))
    assert reader.expect(p.Pubrel).packet_id == first[0].packet_id
    broker.dies()
    reader = broker.client("r")
    assert reader.expect(p.Pubrel).packet_id == first[0].packet_id
    again = [reader.expect(p.Publish) for _ in range(2)]
    assert (again[1].packet_id, again[1].dup) == (first[2].packet_id, True)
    assert [one.payload for one in again] == [b"1", b"2"]
    assert reader.so_far() == []


def test_a_message_acknowledged_to_the_end_does_not_come_back(broker: Broker) -> None:
    reader, writer = broker.client("r"), broker.client("w")
    reader.subscribe("t")
    for qos in (1, 2):
        writer.publish("t", b"x", qos)
        reader.acknowledge(reader.expect(p.Publish))
    assert reader.subscribe("t") == 2  # its answer comes when all before it is on disk
    broker.dies()
    assert broker.client("r").so_far() == []


@pytest.mark.parametrize("version", list(Version))
def test_a_qos_2_message_sent_again_after_the_crash_counts_once(
    broker: Broker, version: Version
) -> None:
    reader, writer = broker.client("r"), broker.client("w", version)
    reader.subscribe("t")
    writer.send(p.Publish("t", b"once", 2, packet_id=7))
    writer.answer(p.Pubrec)
    broker.dies()
    reader, writer = broker.client("r"), broker.client("w", version)
    writer.send(p.Publish("t", b"once", 2, dup=True, packet_id=7))
    assert writer.expect(p.Pubrec) == p.Pubrec(7)
    writer.send(p.Pubrel(7))
    assert writer.expect(p.Pubcomp) == p.Pubcomp(7)
    reader.acknowledge(reader.expect(p.Publish))
    assert reader.so_far() == []
    broker.dies()
    reader, writer = broker.client("r"), broker.client("w", version)
    writer.send(p.Publish("t", b"again", 2, packet_id=7))  # the id was free, so this is new
    writer.answer(p.Pubrec)
    # an unwritten PUBCOMP has the PUBREL of the first come again
    assert reader.answer(p.Publish).payload == b"again"


def test_retained_messages_stay_with_what_is_left_of_their_time(broker: Broker) -> None:
    writer = broker.client("w")
    writer.publish("kept/a", b"old", retain=True)
    writer.publish("kept/a", b"new", 2, retain=True, content_type="t/x")
    writer.publish("kept/b", b"cleared", retain=True)
    writer.publish("kept/b", b"", retain=True)
    writer.publish("kept/short", b"x", retain=True, message_expiry_interval=1)
    writer.publish("kept/long", b"x", retain=True, message_expiry_interval=600)
    alarm = broker.client("alarm")  # a second passes by the broker's clock
    alarm.expect_silence(1.0)
    broker.dies()
    reader = broker.client("r")
    reader.subscribe("kept/+")
    got = {one.topic: one for one in reader.so_far() if isinstance(one, p.Publish)}
    assert set(got) == {"kept/a", "kept/long"}
    assert (got["kept/a"].payload, got["kept/a"].qos, got["kept/a"].retain) == (b"new", 2, True)
    assert found(got["kept/a"], "content_type") == ["t/x"]
    [left_s] = found(got["kept/long"], "message_expiry_interval")
    assert 580 <= left_s <= 599


def test_a_will_is_said_though_the_broker_died_first(broker: Broker) -> None:
    watcher = broker.client("watcher")
    watcher.subscribe("will")
    asked = props(session_expiry_interval=600)
    will = p.Will("will", b"gone", 1, properties=props(will_delay_interval=1))
    with RawClient(broker.address, p.Connect("doomed", properties=asked, will=will)) as doomed:
        doomed.subscribe("t")  # its answer comes when all before it is on disk
        broker.dies()
    assert broker.client("watcher").expect(p.Publish).payload == b"gone"


def test_a_clean_start_and_an_ended_session_stay_so(broker: Broker) -> None:
    one, two = broker.client("1"), broker.client("2")
    for client in (one, two):
        client.subscribe("t")
    one.disconnect(session_expiry_interval=0)
    two.break_off()
    asked = props(session_expiry_interval=600)
    with RawClient(broker.address, p.Connect("2", clean_start=True, properties=asked)) as again:
        assert again.subscribe("other") == 2
        broker.dies()
    assert not present(broker.client("1"))
    two = broker.client("2")
    assert present(two)
    writer = broker.client("w")
    assert writer.publish("t", b"x") == 0x10
    assert writer.publish("other", b"x") == 0


def test_every_acknowledged_message_is_there_whenever_it_dies(broker: Broker) -> None:
    reader = broker.client("r")
    reader.subscribe("t")
    reader.break_off()
    acknowledged: list[int] = []
    sent = 0
    for burst in (1, 10, 100, 300):
        writer = broker.client("w")
        for _ in range(burst):
            sent += 1
            writer.send(p.Publish("t", str(sent).encode(), 1, packet_id=sent))
        half = [writer.expect(p.Puback).packet_id for _ in range(burst // 2)]
        acknowledged += half  # the other half is on its way when it dies
        broker.dies()
    reader = broker.client("r", receive_maximum=65_535)
    got = [int(one.payload) for one in reader.so_far() if isinstance(one, p.Publish)]
    assert got == sorted(set(got))
    assert set(acknowledged) <= set(got)
