"""From a token to a certificate that the broker takes, to the next one, to none: real processes."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509

from cloud.broker.launch import BrokerAddress
from cloud.fleet.identity.ca import CERTIFICATE, CRL
from cloud.fleet.setup.init import create
from cloud.fleet.setup.layout import Layout
from edge.identity.enrol import enrol, renew
from edge.identity.files import IdentityFiles, identity_files
from edge.identity.key import new_key_and_request
from edge.identity.settings import Identity
from shared.errors import HybridgeError
from tests.brokers import Client, running_broker
from tests.cloud.fleet.servers import FleetProcess
from tests.cloud.keyed_process import until

SETTINGS = """device_broker = "mqtts://127.0.0.1:{port}"
[api]
tls_cert = {server}
tls_key = {server_key}
devices_ca = {devices_ca}
enrol_burst = 15
[broker]
url = "mqtts://127.0.0.1:{port}"
tls_ca = {services_ca}
tls_cert = {fleet}
tls_key = {fleet_key}
[identity]
ca = {folder}
acl = {acl}
broker_pid_file = {pid}
[devices]
needs_enrolment = true
"""


@dataclass
class Country:
    at: Layout
    broker: BrokerAddress
    fleet: FleetProcess

    @property
    def ca(self) -> Path:
        return self.at.services_ca / CERTIFICATE

    def token(self, **more: object) -> str:
        made = self.fleet.call("POST", "/v1/tokens", more)
        assert made.status == 201, made.body
        return str(made.json["token"])

    def enrol(self, device: str, folder: Path, token: str) -> IdentityFiles:
        asyncio.run(enrol(self.fleet.url, token, device, folder, ca=self.ca))
        files = identity_files(folder)
        assert files is not None
        return files

    def shuts_out(self, device: str) -> bool:
        """Whether the broker's rules do, after a round trip to who writes them."""
        assert self.fleet.get("/healthz").status == 200
        return f"user {device}\n" in self.at.acl.read_text()

    def shows(self, files: IdentityFiles) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(files.certificate, files.key)
        return context


def country(folder: Path) -> Iterator[Country]:
    create(folder, "lyon", ("127.0.0.1", "localhost"))
    at = Layout(folder)
    with running_broker(
        "embedded", folder / "state", tls_cert=at.certificate("server"), tls_key=at.key("server"),
        tls_ca=at.clients, tls_crl=at.devices_ca / CRL, acl_file=at.acl, pid_file=folder / "broker.pid",
    ) as broker:  # fmt: skip
        paths = {
            "server": at.certificate("server"), "server_key": at.key("server"),
            "devices_ca": at.devices_ca / CERTIFICATE, "services_ca": at.services_ca / CERTIFICATE,
            "fleet": at.certificate("fleet"), "fleet_key": at.key("fleet"),
            "folder": at.devices_ca, "acl": at.acl, "pid": folder / "broker.pid",
        }  # fmt: skip
        quoted = {name: json.dumps(str(path)) for name, path in paths.items()}
        settings = SETTINGS.format(port=broker.port, **quoted)
        process = FleetProcess(folder / "fleet", broker, settings)
        process.tls = ssl.create_default_context(cafile=at.services_ca / CERTIFICATE)
        with process:
            yield Country(at, broker, process)


@pytest.fixture(scope="module")
def lyon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Country]:
    yield from country(tmp_path_factory.mktemp("lyon"))


def serial(files: IdentityFiles) -> int:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


def test_the_way_of_a_device(lyon: Country, tmp_path: Path) -> None:
    token = lyon.token(labels={"site": "lyon"})
    files = lyon.enrol("cam-1", tmp_path, token)
    known = lyon.fleet.get("/v1/devices/cam-1").json
    assert (known["labels"], len(known["certificates"])) == ({"site": "lyon"}, 1)

    client = Client(lyon.broker, "cam-1", tls=lyon.shows(files))
    client.publish("hy/v1/cam-1/up/state", b'{"online":true}', qos=1, retain=True)
    until(lambda: lyon.fleet.get("/v1/devices/cam-1").json["presence"]["online"])

    first = serial(files)
    asyncio.run(renew(Identity(url=lyon.fleet.url, ca=lyon.ca), "cam-1", tmp_path))
    assert serial(files) != first
    assert len(lyon.fleet.get("/v1/devices/cam-1").json["certificates"]) == 2

    revoked = lyon.fleet.call("POST", "/v1/devices/cam-1/revoke", {"comment": "stolen"})
    assert revoked.json["revoked_at"] is not None
    client.ended()  # the broker has read the list again, and ended the session
    listed = x509.load_pem_x509_crl((lyon.at.devices_ca / CRL).read_bytes())
    assert {one.serial_number for one in listed} == {first, serial(files)}
    with pytest.raises(HybridgeError, match="revoked"):
        asyncio.run(renew(Identity(url=lyon.fleet.url, ca=lyon.ca), "cam-1", tmp_path))
    public = lyon.fleet.get("/v1/crl", None)
    assert len(list(x509.load_pem_x509_crl(public.body))) == 2


def test_a_token_is_for_one(lyon: Country, tmp_path: Path) -> None:
    token = lyon.token(device="cam-2")
    with pytest.raises(HybridgeError, match="another device"):
        lyon.enrol("cam-3", tmp_path / "3", token)
    lyon.enrol("cam-2", tmp_path / "2", token)
    with pytest.raises(HybridgeError, match="was used"):
        lyon.enrol("cam-2", tmp_path / "again", token)
    assert lyon.fleet.get("/v1/devices/cam-3").status == 404


def test_one_that_was_revoked_comes_back_by_a_token_made_for_it(
    lyon: Country, tmp_path: Path
) -> None:
    lyon.enrol("cam-5", tmp_path / "1", lyon.token())
    lyon.fleet.call("POST", "/v1/devices/cam-5/revoke", {"comment": "lost"})
    until(lambda: lyon.shuts_out("cam-5"))
    with pytest.raises(HybridgeError, match="made for it by name"):
        lyon.enrol("cam-5", tmp_path / "2", lyon.token())
    files = lyon.enrol("cam-5", tmp_path / "2", lyon.token(device="cam-5"))
    until(lambda: not lyon.shuts_out("cam-5"))
    with Client(lyon.broker, "cam-5", tls=lyon.shows(files)) as client:

        def is_heard() -> bool:
            client.publish("hy/v1/cam-5/up/state", b'{"online":true}', qos=1, retain=True)
            return bool(lyon.fleet.get("/v1/devices/cam-5").json["presence"]["online"])

        until(is_heard)


def test_one_that_was_removed_comes_back_as_a_newcomer(lyon: Country, tmp_path: Path) -> None:
    lyon.enrol("cam-6", tmp_path / "1", lyon.token())
    assert lyon.fleet.call("DELETE", "/v1/devices/cam-6").status == 204
    until(lambda: lyon.shuts_out("cam-6"))
    lyon.enrol("cam-6", tmp_path / "2", lyon.token())
    until(lambda: not lyon.shuts_out("cam-6"))


def test_a_token_that_was_revoked_is_worth_nothing(lyon: Country, tmp_path: Path) -> None:
    token = lyon.token()
    name = token.split("_")[1]
    assert [one["id"] for one in lyon.fleet.get("/v1/tokens").json["tokens"]].count(name) == 1
    assert lyon.fleet.call("DELETE", f"/v1/tokens/{name}").status == 204
    with pytest.raises(HybridgeError, match="not known"):
        lyon.enrol("cam-4", tmp_path, token)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"token": "het_x_y", "device": "a", "csr": "x" * 200}, 400),
        ({"token": "het_" + "a" * 16 + "_" + "b" * 32, "device": "fleet", "csr": "x" * 200}, 400),
        ({"token": "het_" + "a" * 16 + "_" + "b" * 32, "device": "a", "csr": "x" * 20_000}, 400),
        ({"token": 5}, 400),
    ],
)
def test_nonsense_is_refused(lyon: Country, body: object, status: int) -> None:
    assert lyon.fleet.call("POST", "/v1/enrol", body, None).status == status


def test_who_shows_no_certificate_renews_none(lyon: Country) -> None:
    _, request = new_key_and_request("cam-1")
    answer = lyon.fleet.call("POST", "/v1/renew", {"csr": request}, None)
    assert (answer.status, "no client certificate" in answer.json["detail"]) == (401, True)


def test_who_guesses_is_refused_unheard_after_a_few(lyon: Country) -> None:
    """The last one: nobody enrols from here any more."""
    _, request = new_key_and_request("cam-1")
    body = {"token": "het_" + "a" * 16 + "_" + "b" * 32, "device": "cam-1", "csr": request}
    statuses = [lyon.fleet.call("POST", "/v1/enrol", body, None).status for _ in range(16)]
    assert statuses == sorted(statuses)
    assert set(statuses) == {401, 429}
    late = lyon.fleet.call("POST", "/v1/enrol", body, None)
    assert 0 < float(late.headers["retry-after"]) <= 10
