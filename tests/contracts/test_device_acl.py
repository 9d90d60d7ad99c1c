"""A device's certificate opens its own topics and nothing of others, on both brokers, as generated."""

import ssl
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.launch import BrokerAddress
from cloud.fleet.identity.ca import DeviceCa
from shared import topics
from shared.ids import DeviceId, device_id
from tests.brokers import BrokerKind
from tests.cloud.fleet.identity.regions import DAY_S, Credential, Region, issued_by, running_region
from tests.contracts.capabilities import Capabilities
from tests.raw_client import RawClient, props


@pytest.fixture(scope="module")
def region(broker_kind: BrokerKind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with running_region(broker_kind, tmp_path_factory.mktemp("region") / "lyon") as it:
        yield it


class Site:
    """Two devices of one test with names of their own, and who speaks for the region."""

    def __init__(self, region: Region, stack: ExitStack) -> None:
        self.region, self._stack = region, stack
        self.name = uuid.uuid4().hex[:12]
        self.a, self.b = self.credential("a"), self.credential("b")

    def credential(self, suffix: str) -> Credential:
        return self.region.device(f"cam-{self.name}-{suffix}")

    def connect(self, own: Credential, client_id: str | None = None, **options) -> RawClient:
        connect = p.Connect(own.name if client_id is None else client_id, **options)
        return self.open(self.region.devices, connect, self.region.context(own))

    def service(self, name: str) -> RawClient:
        connect = p.Connect(f"{name}/{uuid.uuid4().hex[:8]}")
        client = self.open(self.region.services, connect, self.region.service(name))
        assert client.connack is not None
        assert client.connack.reason == 0
        return client

    def open(self, address: BrokerAddress, connect: p.Connect, tls: ssl.SSLContext) -> RawClient:
        return self._stack.enter_context(RawClient(address, connect, tls))


@pytest.fixture
def site(region: Region) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(region, stack)


def own_topics(device: DeviceId) -> list[str]:
    return [
        topics.escalations(device), topics.state(device), topics.telemetry(device),
        topics.told(device), topics.reported(device, "model"), topics.reported(device, "profile"),
    ]  # fmt: skip


def orders(device: DeviceId) -> list[str]:
    return [topics.desired(device, "model"), topics.desired(device, "profile"), topics.ask(device)]


def down(device: DeviceId) -> list[str]:
    return [topics.answers(device), *orders(device)]


def heard(client: RawClient) -> list[str]:
    return [one.topic for one in client.so_far() if isinstance(one, p.Publish)]


def speaks(site: Site) -> None:
    """The region sends a device everything it may, some of it retained."""
    a = device_id(site.a.name)
    assert site.service("worker").publish(topics.answers(a), b"answer") in (0, 0x10)
    fleet = site.service("fleet")
    for topic in orders(a):
        assert fleet.publish(topic, b"order", retain="desired" in topic) in (0, 0x10)


def test_a_device_says_and_hears_what_is_its_own(site: Site) -> None:
    a = site.connect(site.a)
    fleet, worker = site.service("fleet"), site.service("worker")
    for asked in (topics.STATES, topics.TELEMETRY, topics.TOLD, topics.REPORTED):
        assert fleet.subscribe(asked, 0) == 0
    for asked in (topics.ESCALATIONS_SHARED, topics.STATES):
        assert worker.subscribe(asked, 0) == 0
    assert a.subscribe(f"hy/v1/{site.a.name}/down/#", 0) == 0
    device = device_id(site.a.name)
    for topic in own_topics(device):
        assert a.publish(topic, b"mine") == 0
    reports = own_topics(device)[1:]
    assert [one for one in heard(fleet) if site.a.name in one] == reports
    assert [one for one in heard(worker) if site.a.name in one] == own_topics(device)[:2]
    speaks(site)
    assert sorted(heard(a)) == sorted(down(device))


def test_a_device_writes_nothing_else(site: Site) -> None:
    a = site.connect(site.a)
    own, other = device_id(site.a.name), device_id(site.b.name)
    spy = site.service("fleet")
    spy.subscribe(topics.STATES, 0)
    elsewhere = [
        *own_topics(other), *down(other), *down(own), f"hy/v1/{own}/up/else",
        f"hy/v1/{own}/up/reported/a/b", f"hy/v1/{own}/x", "hy/v1/tuf/timestamp.json", "a",
    ]  # fmt: skip
    for topic in elsewhere:
        for retain in (False, True):
            assert a.publish(topic, b"forged", retain=retain) == 0x87, topic
    assert [one for one in heard(spy) if site.name in one] == []


@pytest.mark.parametrize("wild", [
    "#", "hy/#", "hy/v1/#", "+/+/+/+/+", "hy/v1/+/down/#", "hy/v1/+/down/ans", "hy/v1/+/up/#",
    "hy/v1/{a}/down/#", "hy/v1/{a}/down/ans", "hy/v1/{a}/down/desired/+", "hy/v1/{a}/up/#",
    "$share/thieves/hy/v1/{a}/down/#", "$share/workers/hy/v1/+/up/esc",
])  # fmt: skip
def test_a_stolen_certificate_reads_nothing_of_others(
    site: Site, can: Capabilities, wild: str
) -> None:
    device = device_id(site.a.name)
    speaks(site)  # retained orders lie there
    thief = site.connect(site.b)
    reason = thief.subscribe(wild.format(a=site.a.name), 0)
    assert reason == 0x87 or not can.refuses_filters
    a = site.connect(site.a)
    for topic in own_topics(device):
        a.publish(topic, b"mine")
    speaks(site)
    assert [one for one in heard(thief) if site.b.name not in one] == []


def test_another_client_id_opens_no_other_session(site: Site, can: Capabilities) -> None:
    kept = {"clean_start": False, "properties": props(session_expiry_interval=600)}
    a = site.connect(site.a, **kept)
    assert a.subscribe(f"hy/v1/{site.a.name}/down/#", 1) == 1
    a.break_off()
    speaks(site)
    for claimed in (site.a.name, f"{site.a.name}/x", "worker", "fleet", ""):
        thief = site.connect(site.b, claimed, **kept)
        assert thief.connack is not None
        if can.refuses_foreign_client_ids and claimed:
            assert thief.connack.reason == 0x85
            continue
        assert not thief.connack.session_present
        assert heard(thief) == []
        thief.disconnect(0, session_expiry_interval=0)
    again = site.connect(site.a, **kept)
    assert again.connack is not None
    assert again.connack.session_present
    assert sorted(set(heard(again))) == sorted(down(device_id(site.a.name)))


def test_another_user_name_is_of_no_use(site: Site, can: Capabilities) -> None:
    for claimed in (site.a.name, "worker", "fleet", "hybridge-owner"):
        thief = site.connect(site.b, username=claimed, password=b"x")
        if thief.connack is None or thief.connack.reason:
            continue
        assert not can.refuses_foreign_client_ids  # Mosquitto: it is b whatever it says
        assert thief.publish(topics.state(device_id(site.a.name)), b"forged") == 0x87
        assert thief.publish(topics.desired(device_id(site.a.name), "model"), b"forged") == 0x87


def test_a_last_will_on_anothers_topic_is_never_said(site: Site, can: Capabilities) -> None:
    victim = device_id(site.a.name)
    watcher = site.service("fleet")
    watcher.subscribe(topics.STATES, 0)
    will = p.Will(topics.state(victim), b"offline", 1, True)
    doomed = site.connect(site.b, will=will)
    assert doomed.connack is not None
    assert doomed.connack.reason == (0x87 if can.judges_wills_at_connect else 0)
    doomed.break_off()
    # its own will is said, and later than that one would have been
    fence = site.connect(site.b, will=p.Will(topics.state(device_id(site.b.name)), b"gone", 1))
    assert fence.connack is not None
    assert fence.connack.reason == 0
    fence.break_off()
    while topics.state(device_id(site.b.name)) not in (seen := [watcher.expect(p.Publish).topic]):
        assert topics.state(victim) not in seen
    late = site.service("fleet")
    late.subscribe(topics.state(victim), 0)  # nothing was retained either
    assert heard(late) == []


def test_services_keep_to_their_work(site: Site, can: Capabilities) -> None:
    a = site.connect(site.a)
    device = device_id(site.a.name)
    worker, fleet = site.service("worker"), site.service("fleet")
    for who, forbidden in ((worker, orders(device)), (fleet, [topics.answers(device)])):
        for topic in [*forbidden, *own_topics(device), "hy/v1/tuf/timestamp.json"]:
            assert who.publish(topic, b"no") == 0x87, topic
    for who, asked in ((worker, topics.TELEMETRY), (worker, topics.REPORTED),
                       (worker, "hy/v1/+/down/#"), (fleet, "hy/v1/+/up/esc"),
                       (fleet, "hy/v1/+/down/#")):  # fmt: skip
        assert who.subscribe(asked, 0) == 0x87 or not can.refuses_filters
    for topic in own_topics(device):
        a.publish(topic, b"mine")
    speaks(site)
    assert [one for one in heard(worker) if site.a.name in one] == []
    assert [one for one in heard(fleet) if site.a.name in one] == []


def is_let_in(site: Site, own: Credential | None) -> bool:
    """With TLS 1.3 a refused certificate shows as an end after the handshake."""
    try:
        connect = p.Connect(own.name if own else "x")
        client = site.open(site.region.devices, connect, site.region.context(own))
    except OSError:
        return False
    return client.connack is not None and client.connack.reason == 0


def test_an_expired_certificate_is_refused(site: Site) -> None:
    assert not is_let_in(site, site.region.device(site.a.name, time.time() - 40 * DAY_S, days=30))
    assert is_let_in(site, site.a)


def test_no_certificate_and_one_of_another_ca_are_refused(site: Site, tmp_path: Path) -> None:
    strangers = DeviceCa.create(tmp_path / "ca", "lyon devices", time.time())
    assert not is_let_in(site, issued_by(strangers, site.a.name, tmp_path, None, 30))
    assert not is_let_in(site, None)


def test_a_devices_certificate_does_not_open_the_services_door(
    site: Site, broker_kind: BrokerKind
) -> None:
    connect = p.Connect("worker/x")
    try:
        client = site.open(site.region.services, connect, site.region.context(site.a))
    except OSError:
        return
    assert client.connack is None or client.connack.reason == 0x85
    assert client.connack is None or broker_kind == "embedded"


def test_a_revoked_certificate_is_refused_and_its_session_ends(
    site: Site, broker_kind: BrokerKind
) -> None:
    renewed = site.region.device(site.a.name)
    a, b = site.connect(site.a), site.connect(site.b)
    site.region.revoke(site.a)
    if broker_kind == "embedded":
        assert a.end_reason() == 0x87
    else:
        wait_until(lambda: not is_let_in(site, site.a))
    assert not is_let_in(site, site.a)
    assert is_let_in(site, renewed)  # a name is not revoked, a certificate is
    b.so_far()  # it is still there
    assert is_let_in(site, site.b)


def test_a_revoked_device_says_and_hears_nothing_more_over_an_open_connection(
    site: Site, broker_kind: BrokerKind
) -> None:
    a, b = site.connect(site.a), site.connect(site.b)
    device = device_id(site.a.name)
    assert a.subscribe(f"hy/v1/{device}/down/#", 0) == 0
    assert a.publish(topics.state(device), b"here") in (0, 0x10)
    site.region.revoke(site.a, with_devices=True)
    if broker_kind == "embedded":
        assert a.end_reason() == 0x87
    else:  # Mosquitto leaves it open
        wait_until(lambda: a.publish(topics.telemetry(device), b"still") == 0x87)
        a.so_far()
        speaks(site)
        assert heard(a) == []
    assert b.publish(topics.state(device_id(site.b.name)), b"here") in (0, 0x10)


def wait_until(holds) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
