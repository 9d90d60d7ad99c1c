"""Who may open a WebSocket (section 6), and within what bounds."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.limits import Limits
from cloud.broker.shell.server import Server
from cloud.broker.shell.tls import tls_context
from cloud.broker.shell.websocket_listener import MESSAGE_SLACK_BYTES, websockets_listening
from shared.errors import InUse
from tests.cloud.broker.shell.websockets import (
    LIMITS,
    PAGE,
    TIMEOUT_S,
    Client,
    Listening,
    listening,
)

UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec_WebSocket_Protocol": "mqtt",
}  # fmt: skip


def test_who_speaks_no_mqtt_over_websockets_is_refused() -> None:
    async def check(on: Listening) -> None:
        assert await on.handshake() == 426
        assert await on.handshake(**UPGRADE | {"Sec_WebSocket_Protocol": "mqttv3.1"}) == 400
        none = {name: value for name, value in UPGRADE.items() if name != "Sec_WebSocket_Protocol"}
        assert await on.handshake(**none) == 400
        assert await on.handshake(**UPGRADE | {"Sec_WebSocket_Version": "7.5"}) == 400
        assert not on.server.peers

    listening(check)


def test_only_listed_web_pages_may_connect() -> None:
    async def check(on: Listening) -> None:
        for page in ("https://other.example", "null", PAGE + ":8443", ""):
            assert await on.handshake(**UPGRADE, Origin=page) == 403
        assert not on.server.peers
        url = on.url + "/mqtt"
        async with on.http.ws_connect(url, protocols=["mqtt"], origin=PAGE) as frames:
            client = Client(frames)
            await client.send(p.Connect("page"))
            assert isinstance(await client.read(), p.Connack)

    listening(check)


def test_the_broker_s_own_address_is_no_web_page_unless_it_is_a_name() -> None:
    async def check(on: Listening) -> None:
        port = on.url.rsplit(":", 1)[1]
        for name, status in (
            (f"127.0.0.1:{port}", 101), (f"[::1]:{port}", 101), (f"localhost:{port}", 101),
            (f"broker.example:{port}", 403), ("127.0.0.1.example", 403), ("::1", 403), ("[", 403),
        ):  # fmt: skip
            asked = UPGRADE | {"Host": name}
            assert await on.handshake(**asked, Origin=f"http://{name}") == status, name
            assert await on.handshake(**asked, Origin=f"http://{name}0") == 403
            assert await on.handshake(**asked, Origin=f"file://{name}") == 403

    listening(check)


def test_compression_is_not_granted() -> None:
    async def check(on: Listening) -> None:
        url = on.url + "/mqtt"
        async with on.http.ws_connect(url, protocols=["mqtt"], compress=15) as frames:
            assert not frames.compress

    listening(check)


def test_a_message_over_the_bound_is_refused() -> None:
    async def check(on: Listening) -> None:
        async with on.client("c") as client:
            most = LIMITS.packet_bytes_max + MESSAGE_SLACK_BYTES
            await client.frames.send_bytes(encode(p.Pingreq()) * (most // 2 - 1))
            assert await client.read() == p.Pingresp()
            await client.frames.send_bytes(bytes(most + 1))
            while (found := await client.read()) == p.Pingresp():
                pass
            assert found == aiohttp.WSCloseCode.MESSAGE_TOO_BIG

    listening(check)


def test_connections_are_bounded() -> None:
    async def check(on: Listening) -> None:
        async with on.client("a"), on.client("b"):
            with pytest.raises(aiohttp.ClientError):
                async with on.client("c"):
                    pass
        async with on.client("d"):
            pass

    listening(check, Limits(connections_max=2))


def test_a_request_head_and_a_connect_have_their_time() -> None:
    async def check(on: Listening) -> None:
        port = int(on.url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /mqtt HTTP/1.1\r\nHo")
        assert await reader.read() == b""
        writer.close()
        async with on.client("c") as client, on.client() as silent:
            assert await silent.read() == aiohttp.WSCloseCode.OK
            await client.send(p.Pingreq())  # it is past both times, and still served
            assert await client.read() == p.Pingresp()

    listening(check, Limits(connect_timeout_s=0.2))


def test_a_taken_port_names_its_option() -> None:
    async def check(on: Listening) -> None:
        port = int(on.url.rsplit(":", 1)[1])
        with pytest.raises(InUse, match=f"127.0.0.1:{port} .*--websocket-port"):
            async with websockets_listening(on.server, "127.0.0.1", port):
                pass

    listening(check)


def self_signed(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate that vouches for itself, and its key."""
    program = shutil.which("openssl")
    assert program is not None, "this test needs openssl: apt-get install openssl"
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_a_certificate_says_who_comes_over_wss(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path, "gateway-7")
    ours = ssl.create_default_context(cafile=cert)
    ours.load_cert_chain(cert, key)
    without = ssl.create_default_context(cafile=cert)

    async def run() -> None:
        server = Server(LIMITS)
        tls = tls_context(cert, key, cert)
        async with (
            asyncio.timeout(TIMEOUT_S),
            websockets_listening(server, "127.0.0.1", 0, tls) as (_, port),
            aiohttp.ClientSession(f"https://127.0.0.1:{port}") as http,
        ):
            with pytest.raises(aiohttp.ClientError):
                async with http.ws_connect("/mqtt", protocols=["mqtt"], ssl=without):
                    pass
            async with http.ws_connect("/mqtt", protocols=["mqtt"], ssl=ours) as frames:
                client = Client(frames)
                await client.send(p.Connect("gateway-7"))
                assert isinstance(await client.read(), p.Connack)
                assert server.router.sessions["gateway-7"].username == "gateway-7"
            await server.drain()

    asyncio.run(run())
