"""Who may do what: one ACL file, the same answer from every broker, or a reason why not."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.access.passwords import with_user
from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.launch import BrokerAddress
from tests.brokers import BrokerKind, running_broker
from tests.contracts.capabilities import Capabilities
from tests.contracts.certificates import client_context, make_certificates
from tests.contracts.conftest import Clients
from tests.raw_client import RawClient

ACL = """
# anonymous clients
topic read news/#
user alice
topic readwrite alice/#
topic read news/#
topic write secret/#
user bob
topic read secret/#
pattern readwrite of/%u/#
pattern readwrite by/%c/#
"""
PASSWORD = b"correct horse"


def write_passwords(kind: BrokerKind, at: Path) -> None:
    """Give alice and bob the password, as this broker wants it."""
    if kind == "embedded":
        text = ""
        for name in ("alice", "bob"):
            text = with_user(text, name, PASSWORD, b"0123456789abcdef", "passwords")
        at.write_text(text)
        return
    program = shutil.which("mosquitto_passwd")
    assert program is not None, "these tests need Mosquitto: apt-get install mosquitto"
    for name, flags in (("alice", ["-c", "-b"]), ("bob", ["-b"])):
        command = [program, *flags, str(at), name, PASSWORD.decode()]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def broker(
    broker_kind: BrokerKind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerAddress]:
    """A broker with users and rules, which lets strangers in too."""
    at = tmp_path_factory.mktemp("guarded")
    (at / "acl").write_text(ACL)
    write_passwords(broker_kind, at / "passwords")
    for one in ("acl", "passwords"):
        (at / one).chmod(0o600)
    with running_broker(
        broker_kind, at / "state", acl_file=at / "acl", password_file=at / "passwords",
        allow_anonymous=True,
    ) as address:  # fmt: skip
        yield address


def as_user(name: str) -> dict[str, Any]:
    return {"username": name, "password": PASSWORD}


def test_a_refused_publish_is_told_and_goes_nowhere(clients: Clients) -> None:
    bob, alice = clients.raw("b", **as_user("bob")), clients.raw("a", **as_user("alice"))
    bob.subscribe("secret/#")
    stranger = clients.raw("s")
    for client in (stranger, bob):
        for qos in (0, 1, 2):
            assert client.publish(f"secret/{clients.name}", b"no", qos) == (0x87 if qos else 0)
        client.so_far()  # it is still there
    assert alice.publish(f"secret/{clients.name}", b"yes") == 0
    assert bob.expect(p.Publish).payload == b"yes"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_over_3_1_1_a_refused_publish_is_no_success(
    clients: Clients, can: Capabilities, qos: p.Qos
) -> None:
    client = clients.raw(version=Version.V311)
    client.send(p.Publish("secret/x", b"no", qos, packet_id=1 if qos else 0))
    if can.never_says_success_falsely:
        assert client.rest() == []
    else:
        assert len(client.so_far()) == (1 if qos else 0)


def test_what_may_not_be_read_does_not_arrive(
    clients: Clients, can: Capabilities, version: MQTTProtocolVersion
) -> None:
    alice = clients.raw("a", **as_user("alice"))
    alice.publish(f"secret/{clients.name}", b"kept", retain=True)
    spy = clients.raw("spy", Version(int(version)))
    reason = spy.subscribe("secret/#")
    assert reason == ((0x87 if spy.version is Version.V5 else 0x80) if can.refuses_filters else 2)
    assert spy.subscribe("news/#") == 2
    for qos in (0, 1, 2):
        alice.publish(f"secret/{clients.name}", b"no", qos)
    assert spy.so_far() == []
    alice.publish(f"secret/{clients.name}", b"", retain=True)


def test_patterns_name_the_user_and_the_client(clients: Clients) -> None:
    alice, name = clients.raw("a", **as_user("alice")), f"{clients.name}a"
    for own in (f"of/alice/{name}", f"by/{name}/x"):
        assert alice.subscribe(own) == 2
        assert alice.publish(own, b"mine") == 0
        publish = alice.expect(p.Publish)
        assert publish.topic == own
        alice.acknowledge(publish)
    for foreign in ("of/bob/x", f"by/{name}x/x", "by/other/x"):
        assert alice.publish(foreign, b"no") == 0x87
    stranger = clients.raw("s")
    assert stranger.publish("of/alice/x", b"no") == 0x87
    assert stranger.publish("of//x", b"no") == 0x87


def test_a_will_obeys_the_rules(clients: Clients, can: Capabilities) -> None:
    bob = clients.raw("b", **as_user("bob"))
    bob.subscribe("secret/#")
    doomed = clients.raw("d", will=p.Will("secret/will", b"no", 1))
    assert doomed.connack is not None
    assert doomed.connack.reason == (0x87 if can.judges_wills_at_connect else 0)
    doomed.break_off()
    fence = clients.raw("f", **as_user("alice"))
    fence.publish("secret/fence", b"last")
    assert bob.expect(p.Publish).payload == b"last"


@pytest.mark.parametrize("told", [
    {"username": "alice", "password": b"wrong"}, {"username": "alice"},
    {"username": "nobody", "password": PASSWORD},
])  # fmt: skip
def test_who_cannot_say_who_it_is_stays_out(
    clients: Clients, version: MQTTProtocolVersion, told: dict[str, Any]
) -> None:
    client = clients.raw("x", Version(int(version)), **told)
    assert client.connack is not None
    allowed = (0x86, 0x87) if client.version is Version.V5 else (4, 5)
    assert client.connack.reason in allowed
    assert client.rest() == []


def test_nobody_writes_to_system_topics(clients: Clients) -> None:
    alice = clients.raw("a", **as_user("alice"))
    assert alice.publish("$SYS/broker/uptime", b"0") == 0x87


@pytest.fixture(scope="module")
def certified(
    broker_kind: BrokerKind, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerAddress, Path]]:
    """A broker that knows clients by their certificates, and where those are."""
    at = tmp_path_factory.mktemp("certified")
    make_certificates(at, "server", "alice", "bob")
    (at / "acl").write_text(ACL)
    (at / "acl").chmod(0o600)
    with running_broker(
        broker_kind, at / "state", acl_file=at / "acl", tls_cert=at / "server.pem",
        tls_key=at / "server.key", tls_ca=at / "ca.pem",
    ) as address:  # fmt: skip
        yield address, at


def test_a_certificate_is_its_clients_user_name(certified: tuple[BrokerAddress, Path]) -> None:
    address, at = certified
    with RawClient(address, p.Connect("alice"), client_context(at, "alice")) as alice:
        assert alice.publish("of/alice/x", b"mine") == 0x10
        assert alice.publish("of/bob/x", b"no") == 0x87
        assert alice.publish("by/alice/x", b"mine") == 0x10


def test_a_certificate_takes_no_other_clients_place(
    certified: tuple[BrokerAddress, Path], can: Capabilities
) -> None:
    address, at = certified
    with (
        RawClient(address, p.Connect("bob"), client_context(at, "bob")) as bob,
        RawClient(address, p.Connect("bob"), client_context(at, "alice")) as alice,
    ):
        assert alice.connack is not None
        assert alice.connack.reason == (0x85 if can.refuses_foreign_client_ids else 0)
        if not can.refuses_foreign_client_ids:
            assert alice.publish("by/alice/x", b"it goes by its certificate") == 0x10
        assert bob.so_far() == []
        assert bob.publish("by/bob/x", b"still here") == 0x10


def test_without_a_certificate_nobody_comes_in(certified: tuple[BrokerAddress, Path]) -> None:
    address, at = certified
    try:
        with RawClient(address, p.Connect("bob"), client_context(at)) as client:
            assert client.connack is None
    except OSError:
        return  # in the handshake; with TLS 1.3 it may come after it
