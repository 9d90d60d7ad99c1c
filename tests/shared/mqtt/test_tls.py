"""TLS with a private CA, against the embedded broker."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.broker.launch import BrokerAddress
from tests.brokers import running_broker
from tests.shared.mqtt.node import WAIT_S, Node, running, settings


def openssl(*arguments: str, at: Path) -> None:
    program = shutil.which("openssl")
    assert program is not None, "this test needs openssl: apt-get install openssl"
    subprocess.run([program, *arguments], cwd=at, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("certificates")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for ca in ("ca", "other"):
        openssl("req", "-x509", *key, "-keyout", f"{ca}.key", "-out", f"{ca}.pem", "-days", "2",
                "-subj", f"/CN={ca}", at=at)  # fmt: skip
    (at / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
                f"/CN={name}", at=at)  # fmt: skip
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
                at=at)  # fmt: skip
    return at


@pytest.fixture(scope="module")
def broker(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """Asks for a client certificate."""
    with running_broker(
        "embedded", tmp_path_factory.mktemp("tls"), tls_cert=certificates / "server.pem",
        tls_key=certificates / "server.key", tls_ca=certificates / "ca.pem",
    ) as address:  # fmt: skip
        yield address


def secure(at: Path, ca: str = "ca.pem", **more: Any) -> dict[str, Any]:
    own = {"tls_certificate": str(at / "client.pem"), "tls_key": str(at / "client.key")}
    return {"tls": True, "tls_ca": str(at / ca)} | own | more


def test_both_ends_know_each_other(broker: BrokerAddress, certificates: Path) -> None:
    async def check() -> None:
        node = Node(settings(broker, "client", **secure(certificates)), "t")
        message = bytes(100_000)
        async with running(node):
            sent = [node.link.publish("t", message) for _ in range(10)]
            for _ in sent:
                assert (await node.got.get()).payload == message
            await asyncio.gather(*sent)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ca": "other.pem"}, "certificate verify failed"),
        ({"tls_certificate": None}, "check port, tls and certificates"),
        ({"ca": "nowhere.pem"}, "nowhere.pem"),
    ],
)
def test_a_refusal_says_why(
    broker: BrokerAddress,
    certificates: Path,
    changes: dict[str, Any],
    why: str,
) -> None:
    async def check() -> str:
        node = Node(settings(broker, "t2", **secure(certificates, **changes)))
        async with asyncio.timeout(WAIT_S):
            assert not await node.link._one_connection()
        assert node.ups.empty()
        return node.link._why

    assert why in asyncio.run(check()).lower()
