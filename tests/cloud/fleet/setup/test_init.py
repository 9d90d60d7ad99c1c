"""What `hybridge fleet init` writes is whole, guarded, fits the parts that read it, and stays."""

import ssl
import stat
import tomllib
from pathlib import Path

import pytest

from cloud.broker.access.files import read_acl, read_revocations
from cloud.broker.settings import BrokerSettings
from cloud.fleet.config import load
from cloud.fleet.identity.ca import CERTIFICATE, CRL, DeviceCa
from cloud.fleet.setup.acl import ACL, acl
from cloud.fleet.setup.init import create, renew
from cloud.fleet.setup.layout import Layout
from shared.errors import Conflict, Malformed

HOSTS = ("broker.lyon.example", "192.0.2.7", "2001:db8::7")


@pytest.mark.parametrize("broker", ["embedded", "mosquitto"])
def test_its_files_are_there_and_secret_ones_are_secret(tmp_path: Path, broker) -> None:
    made = create(tmp_path, "lyon", HOSTS, broker)
    at = Layout(tmp_path)
    assert made[0] == at.fleet_config
    assert len(set(made)) == len(made)
    for path in made:
        assert path.is_file(), path
    secrets = [*tmp_path.rglob("*.key"), *tmp_path.rglob("key.pem"), at.keys, at.acl]
    assert len(secrets) == 7
    assert {stat.S_IMODE(one.stat().st_mode) for one in secrets} == {0o600}
    assert at.mosquitto_config.exists() is (broker == "mosquitto")


def test_the_settings_are_read_by_their_parts(tmp_path: Path) -> None:
    create(tmp_path, "lyon", HOSTS)
    at = Layout(tmp_path)
    fleet = load(at.fleet_config, {})
    assert fleet.device_broker == "mqtts://broker.lyon.example:8883"
    assert fleet.api.devices_ca == at.devices_ca / CERTIFICATE
    assert fleet.broker.tls_cert == at.certificate("fleet")
    assert fleet.identity is not None
    DeviceCa.open(fleet.identity.ca)
    assert fleet.identity.crl == at.devices_ca / CRL
    assert (fleet.identity.acl, fleet.identity.broker_pid_file) == (at.acl, at.broker_pid)
    broker = BrokerSettings.model_validate(tomllib.loads(at.broker_config.read_text())["broker"])
    assert broker.tls_crl is not None
    assert broker.tls_ca is not None
    assert read_revocations(broker.tls_crl, broker.tls_ca).revoked == frozenset()
    read_acl(at.acl)


def test_each_certificate_fits_its_key_and_the_servers_has_every_host(tmp_path: Path) -> None:
    create(tmp_path, "lyon", HOSTS)
    at = Layout(tmp_path)
    for name in ("server", "worker", "fleet"):
        ssl.create_default_context().load_cert_chain(at.certificate(name), at.key(name))
    shown = ssl._ssl._test_decode_cert(str(at.certificate("server")))  # type: ignore[attr-defined]
    assert [value for _, value in shown["subjectAltName"]] == [
        "broker.lyon.example", "192.0.2.7", "2001:DB8:0:0:0:0:0:7",
    ]  # fmt: skip


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    create(tmp_path, "lyon", HOSTS)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(Conflict, match="exists already"):
        create(tmp_path, "lyon", HOSTS)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_services_get_new_certificates_of_the_same_ca(tmp_path: Path) -> None:
    create(tmp_path, "lyon", HOSTS)
    at = Layout(tmp_path)
    ca, before = (at.services_ca / CERTIFICATE).read_bytes(), at.certificate("fleet").read_bytes()
    renew(tmp_path, ("other.example",))
    assert (at.services_ca / CERTIFICATE).read_bytes() == ca
    assert at.certificate("fleet").read_bytes() != before
    ssl.create_default_context().load_cert_chain(at.certificate("fleet"), at.key("fleet"))


@pytest.mark.parametrize("hosts", [
    (), ("",), ("a b",), ("host:8883",), ("https://a",), ("-a.example",), ("a" * 64,), (".".join(["a" * 60] * 5),), ("a..b",),
    tuple(f"h{i}" for i in range(17)), ('a"\n',),
])  # fmt: skip
def test_hosts_that_are_none_are_refused_before_anything_is_written(
    tmp_path: Path, hosts: tuple[str, ...]
) -> None:
    with pytest.raises(Malformed, match="host"):
        create(tmp_path, "lyon", hosts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("region", ["", "a b", 'a"', "x" * 51, "a\n"])
def test_a_regions_name_is_plain(tmp_path: Path, region: str) -> None:
    with pytest.raises(Malformed, match="region"):
        create(tmp_path, region, HOSTS)


def test_devices_that_are_shut_out_stand_in_the_acl() -> None:
    assert acl() == ACL
    assert acl(["b", "a", "b"]).endswith("user a\ntopic deny #\nuser b\ntopic deny #\n")
    with pytest.raises(Malformed):
        acl(["a\nuser fleet"])
