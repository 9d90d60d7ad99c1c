"""What the API's TLS lets through, and what it says about who is there: real handshakes."""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from cloud.fleet.api.tls import server_context, shown
from cloud.fleet.identity.ca import CERTIFICATE, DeviceCa
from cloud.fleet.identity.peers import PeerCertificate, peer
from cloud.fleet.setup.init import create
from cloud.fleet.setup.layout import Layout
from shared.errors import Malformed, NotTrusted
from tests.cloud.fleet.identity.regions import DAY_S, Credential, issued_by


class Wire:
    """The server's end of a connection, as asyncio and aiohttp show it."""

    def __init__(self, end: ssl.SSLSocket | None) -> None:
        self._end = end

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._end if name == "ssl_object" else default


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    at = Layout(tmp_path_factory.mktemp("region"))
    create(at.folder, "lyon", ("localhost",))
    return at


@pytest.fixture
def ask(region: Layout) -> Callable[[Credential | None], PeerCertificate | None]:
    """Connect with a certificate; gives whom the server sees."""
    context = server_context(
        region.certificate("server"), region.key("server"), region.devices_ca / CERTIFICATE
    )

    def connect(own: Credential | None) -> PeerCertificate | None:
        mine, theirs = socket.socketpair()
        seen: list[PeerCertificate | None] = []
        problems: list[Exception] = []

        def serve() -> None:
            try:
                with context.wrap_socket(theirs, server_side=True) as end:
                    end.sendall(b"x")
                    seen.append(shown(Wire(end)))
            except Exception as error:  # noqa: BLE001  shown to the test
                problems.append(error)
            finally:
                theirs.close()

        server = threading.Thread(target=serve)
        server.start()
        client = ssl.create_default_context(cafile=region.services_ca / CERTIFICATE)
        if own is not None:
            client.load_cert_chain(own.certificate, own.key)
        try:
            with client.wrap_socket(mine, server_hostname="localhost") as end:
                end.recv(1)
        except (OSError, ssl.SSLError):
            assert server.join(10) is None
        server.join(10)
        if problems:
            raise problems[0]
        return seen[0]

    return connect


def device(region: Layout, at: float | None = None, ca: DeviceCa | None = None) -> Credential:
    return issued_by(ca or DeviceCa.open(region.devices_ca), "cam-1", region.folder, at, 30)


def test_a_device_is_known_by_its_certificate(region: Layout, ask) -> None:
    own = device(region)
    seen = ask(own)
    assert seen == PeerCertificate(
        "cam-1", own.issued.serial, own.issued.not_before, own.issued.not_after
    )


def test_who_shows_none_is_nobody(ask) -> None:
    assert ask(None) is None
    assert shown(Wire(None)) is None


def test_an_expired_certificate_comes_through_for_its_renewal(region: Layout, ask) -> None:
    seen = ask(device(region, time.time() - 40 * DAY_S))
    assert seen is not None
    assert seen.not_after < time.time()


def test_another_cas_certificate_ends_the_handshake(region: Layout, ask, tmp_path: Path) -> None:
    others = DeviceCa.create(tmp_path / "ca", "lyon devices", time.time())
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(device(region, ca=others))
    services = DeviceCa.open(region.services_ca)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(device(region, ca=services))


def test_a_certificate_for_services_names_no_device(region: Layout) -> None:
    ca = DeviceCa.open(region.devices_ca)
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    made = ca.issue_service(key, "fleet", time.time(), 1, ())
    with pytest.raises(NotTrusted, match="names no device"):
        peer(ssl.PEM_cert_to_DER_cert(made.pem))
    with pytest.raises(NotTrusted, match="names no device"):
        peer(b"x")


def test_files_that_do_not_fit_are_named(region: Layout) -> None:
    with pytest.raises(Malformed, match="TLS files"):
        server_context(region.certificate("server"), region.key("fleet"), None)
    with pytest.raises(Malformed, match="TLS files"):
        server_context(region.certificate("server"), region.key("server"), region.folder / "none")
