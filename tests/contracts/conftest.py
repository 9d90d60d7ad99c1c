"""Brokers for the contract suites: `broker` runs each test against every kind."""

from collections.abc import Iterator

import pytest

from cloud.broker.launch import BrokerAddress
from tests.brokers import BROKER_KINDS, BrokerKind, running_broker


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
    limits = {"packet_bytes_max": 100_000}
    with running_broker(broker_kind, tmp_path_factory.mktemp(broker_kind), limits=limits) as it:
        yield it
