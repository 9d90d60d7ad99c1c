"""Wills: who says them, when, and as what (3.1.2.5, 3.1.3.2)."""

import time
from typing import Any

from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import props


def test_a_will_is_for_connections_that_break(
    clients: Clients, version: MQTTProtocolVersion
) -> None:
    watcher, name = clients.paho(), clients.name
    watcher.subscribe(name + "/#")
    will = (name + "/will", b"gone")
    clients.paho("a", version=version, will=will).disconnect()
    watcher.expect_nothing()
    clients.paho("b", version=version, will=will).break_off()
    assert watcher.next().payload == b"gone"


def test_disconnect_may_ask_for_the_will(clients: Clients) -> None:
    watcher, name = clients.paho(), clients.name
    watcher.subscribe(name)
    clients.raw("a", will=p.Will(name, b"gone")).disconnect(reason=0x04)
    assert watcher.next().payload == b"gone"


def test_a_second_connection_leaves_no_will_unsaid(clients: Clients) -> None:
    watcher, name = clients.paho(), clients.name
    watcher.subscribe(name)
    clients.raw("a", will=p.Will(name, b"gone"))
    clients.raw("a")
    assert watcher.next().payload == b"gone"


def test_a_will_keeps_its_qos_retain_and_properties(clients: Clients) -> None:
    watcher, name = clients.raw("w"), clients.name
    pairs = [("a", "2"), ("c", "3")]
    told = props(user_property=pairs, content_type="t/x", payload_format_indicator=1)
    watcher.subscribe(name)
    clients.raw("a", will=p.Will(name, b"gone", 2, retain=True, properties=told)).break_off()
    publish = watcher.expect(p.Publish)
    assert (publish.qos, publish.retain) == (2, False)
    assert sorted(map(str, publish.properties)) == sorted(map(str, told))
    late = clients.raw("late")
    late.subscribe(name)
    assert late.expect(p.Publish).retain


def test_a_silent_client_is_closed_and_its_will_said(clients: Clients) -> None:
    watcher, name = clients.paho(), clients.name
    watcher.subscribe(name + "/+")
    told = props(user_property=[("a", "2"), ("c", "3")])
    started = time.monotonic()
    silent = {
        spoken: clients.raw(
            str(spoken), spoken, keep_alive=1,
            will=p.Will(f"{name}/{spoken.name}", b"gone", 1, properties=told),
        )
        for spoken in Version
    }  # fmt: skip
    for _ in silent:
        got: Any = watcher.next()
        assert 1.0 < time.monotonic() - started < 7.0
        told_of_v5 = getattr(got.properties, "UserProperty", None)
        assert told_of_v5 == ([("a", "2"), ("c", "3")] if got.topic.endswith("V5") else None)
    for client in silent.values():
        assert [one for one in client.rest() if not isinstance(one, p.Disconnect)] == []


def test_a_ping_keeps_a_client_alive(clients: Clients) -> None:
    client = clients.raw(keep_alive=1)
    for _ in range(6):  # 3 s, where one and a half would do to be closed
        client.expect_silence(0.5)
        assert client.so_far() == []


def test_a_delayed_will_is_called_off_by_a_return(clients: Clients) -> None:
    watcher, name = clients.paho(), clients.name
    watcher.subscribe(name + "/#")
    will = (name + "/will", b"gone")
    again: dict[str, Any] = {"expiry_s": 600, "clean": False}
    clients.paho("a", will=will, will_delay_s=1, **again).break_off()
    clients.paho("a", **again).disconnect()
    clients.paho("b", will=will, will_delay_s=1, **again).break_off()
    clients.paho("c", will=(name + "/now", b""), **again).break_off()
    assert [watcher.next().topic, watcher.next().topic] == [name + "/now", name + "/will"]
    watcher.expect_nothing()


def test_a_will_waits_for_its_delay_or_the_sessions_end(
    clients: Clients, can: Capabilities
) -> None:
    watcher, name = clients.paho(), clients.name
    watcher.subscribe(name + "/+")
    doomed = [
        clients.paho(why, will=(f"{name}/{why}", b""), will_delay_s=delay_s, expiry_s=expiry_s)
        for why, delay_s, expiry_s in (("delay", 2, 600), ("session", 600, 2), ("at once", 600, 0))
    ]
    started = time.monotonic()
    for client in doomed:
        client.break_off()
    if can.ends_a_wills_delay_with_its_session:
        assert watcher.next().topic == f"{name}/at once"
    assert {watcher.next().topic for _ in range(2)} == {f"{name}/delay", f"{name}/session"}
    # Mosquitto counts whole seconds, so one of them may be short
    assert 1 < time.monotonic() - started < 7
    watcher.expect_nothing()
