"""The operator's view of a real broker process: its socket, its `$SYS`, its metrics."""

from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from cloud.broker.codec import packets as p
from cloud.broker.operations.admin_client import find
from tests.brokers import running_broker
from tests.raw_client import RawClient, props

LASTING = props(session_expiry_interval=600)


def test_a_client_is_seen_and_kicked_and_forgotten(tmp_path: Path) -> None:
    with running_broker("embedded", tmp_path) as address:
        admin = find([tmp_path])
        with RawClient(address, p.Connect("a/b", properties=LASTING)) as client:
            client.subscribe("t/#")
            host, port = client.socket.getsockname()
            (row,) = admin.sessions().sessions
            assert (row.client_id, row.username, row.address) == ("a/b", None, f"{host}:{port}")
            assert (row.is_connected, row.subscriptions, row.expiry_s) == (True, 1, 600)
            admin.kick("a/b", forget=False)
            assert client.end_reason() == 0x98
        (row,) = admin.sessions().sessions
        assert not row.is_connected
        assert row.ends_in_s is not None
        again = p.Connect("a/b", clean_start=False, properties=LASTING)
        with RawClient(address, again) as client:
            assert client.connack is not None
            assert client.connack.session_present
            admin.kick("a/b", forget=True)
            assert client.end_reason() == 0x98
        assert admin.sessions().sessions == ()
        with RawClient(address, again) as client:
            assert client.connack is not None
            assert not client.connack.session_present
        status = admin.status()
    assert status.counts.closed["ADMINISTRATIVE_ACTION"] == 2
    assert status.counts.connects == 3
    assert status.store is not None
    assert status.store.commits > 0
    assert not (tmp_path / "admin.sock").exists()


def test_sys_topics_arrive_and_follow_what_happens(tmp_path: Path) -> None:
    with (
        running_broker("embedded", tmp_path, sys_interval_s=0.05) as address,
        RawClient(address, p.Connect("watcher")) as watcher,
    ):
        watcher.subscribe("$SYS/broker/clients/connected")
        watcher.subscribe("#")  # does not match them (4.7.2-1)
        said: list[bytes] = []
        while not said or said[-1] != b"1":
            found = watcher.expect(p.Publish)
            assert found.topic == "$SYS/broker/clients/connected"
            said.append(found.payload)
        with RawClient(address, p.Connect("other")):
            assert watcher.expect(p.Publish).payload == b"2"
        assert watcher.expect(p.Publish).payload == b"1"


def test_metrics_over_tcp_count_what_happened(tmp_path: Path) -> None:
    with running_broker("embedded", tmp_path, metrics_port=0) as address:
        with RawClient(address, p.Connect("c")) as client:
            client.publish("t", b"12345")
            client.disconnect()
        url = f"http://127.0.0.1:{address.metrics_port}/metrics"
        with urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    found = {
        (one.name, one.labels.get("reason", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert found["hybridge_broker_connects_total", ""] == 1
    assert found["hybridge_broker_packets_received_total", ""] == 3
    assert found["hybridge_broker_packets_sent_total", ""] == 2
    assert found["hybridge_broker_publishes_received_total", ""] == 1
    assert found["hybridge_broker_connections_closed_total", "client_left"] == 1
