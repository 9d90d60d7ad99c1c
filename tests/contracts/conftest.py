"""Brokers and clients for the contract suites: each test runs against every kind of broker."""

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.launch import BrokerAddress
from tests.brokers import BROKER_KINDS, BrokerKind, Client, MQTTv5, MQTTv311, running_broker
from tests.contracts.capabilities import CAPABILITIES, Capabilities
from tests.raw_client import RawClient, props


class Clients:
    """Clients of one test against one broker, closed at its end however it ends.

    `name` is a topic and the beginning of client ids that no other test uses.
    """

    def __init__(self, broker: BrokerAddress, stack: contextlib.ExitStack) -> None:
        self.broker = broker
        self.name = uuid.uuid4().hex[:12]
        self._stack = stack

    def paho(self, suffix: str = "", **options: Any) -> Client:
        """Connect a client that behaves."""
        return self._stack.enter_context(Client(self.broker, self.name + suffix, **options))

    def raw(self, suffix: str = "", version: Version = Version.V5, **options: Any) -> RawClient:
        """Connect a client that only does what it is told; more `options` of `packets.Connect`.

        `properties` is a dict for `raw_client.props`.
        """
        found = props(**options.pop("properties", {}))
        client_id = options.pop("client_id", self.name + suffix)
        connect = p.Connect(client_id, version, properties=found, **options)
        return self._stack.enter_context(RawClient(self.broker, connect))

    def silent(self) -> RawClient:
        """Open a connection without CONNECT."""
        return self._stack.enter_context(RawClient(self.broker))

    def wait_on_the_brokers_clock(self, delay_s: int) -> None:
        """Give the broker so many seconds: until a will that it delays as long has come."""
        watcher, topic = self.paho("-watch"), self.name + "-alarm"
        watcher.subscribe(topic)
        rings = {"will": (topic, b"now"), "will_delay_s": delay_s, "expiry_s": 600}
        self.paho("-alarm", **rings).break_off()
        assert watcher.next().payload == b"now"
        watcher.disconnect()


@pytest.fixture(scope="session", params=BROKER_KINDS)
def broker_kind(request: pytest.FixtureRequest) -> BrokerKind:
    """Each kind of broker in turn."""
    kind: BrokerKind = request.param
    return kind


@pytest.fixture(scope="session")
def broker(
    broker_kind: BrokerKind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerAddress]:
    """One running broker for the whole suite: tests use topics and client ids of their own."""
    limits = {"packet_bytes_max": 100_000, "keep_alive_s_max": 60}
    with running_broker(broker_kind, tmp_path_factory.mktemp(broker_kind), limits=limits) as it:
        yield it


@pytest.fixture
def can(broker_kind: BrokerKind) -> Capabilities:
    """What this broker does where they differ."""
    return CAPABILITIES[broker_kind]


@pytest.fixture
def clients(broker: BrokerAddress) -> Iterator[Clients]:
    """Give the test its clients."""
    with contextlib.ExitStack() as stack:
        yield Clients(broker, stack)


@pytest.fixture(params=[MQTTv5, MQTTv311], ids=["v5", "v311"])
def version(request: pytest.FixtureRequest) -> MQTTProtocolVersion:
    """Both versions in turn; a `codec.packets.Version` has the same number."""
    found: MQTTProtocolVersion = request.param
    return found
