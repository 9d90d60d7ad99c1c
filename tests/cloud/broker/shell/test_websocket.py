"""MQTT over WebSockets (section 6): aiohttp's and paho's clients, and ones that do not read."""

import asyncio
import queue
import socket
from collections.abc import Callable

import aiohttp
import pytest
from paho.mqtt.client import Client as Paho
from paho.mqtt.client import MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.shell import websocket, websocket_listener
from cloud.broker.shell.server import Server
from tests.cloud.broker.shell.websockets import (
    LIMITS,
    TIMEOUT_S,
    Client,
    Listening,
    listening,
)


@pytest.mark.parametrize("path", ["/mqtt", "/"])
def test_a_message_travels(path: str) -> None:
    async def check(on: Listening) -> None:
        async with on.client("c", path) as client:
            assert client.frames.protocol == "mqtt"
            await client.send(p.Subscribe(1, (p.Subscription("t", 1),)))
            assert await client.read() == p.Suback(1, (1,))
            await client.send(p.Publish("t", b"x", 1, packet_id=2))
            found = {type(await client.read()), type(await client.read())}
            assert found == {p.Puback, p.Publish}

    listening(check)


def test_packets_may_span_frames_and_share_them() -> None:
    async def check(on: Listening) -> None:
        async with on.client() as client:
            for byte in encode(p.Connect("c")):
                await client.frames.send_bytes(bytes([byte]))
            assert isinstance(await client.read(), p.Connack)
            await client.send(*[p.Pingreq()] * 3)
            assert [await client.read() for _ in range(3)] == [p.Pingresp()] * 3
            await client.frames.send_bytes(b"")
            await client.send(p.Pingreq())
            assert await client.read() == p.Pingresp()

    listening(check)


def test_a_text_frame_ends_that_connection_and_no_other() -> None:
    async def check(on: Listening) -> None:
        async with on.client("a") as bad, on.client("b") as good:
            await bad.frames.send_str("text")
            assert await bad.read() == aiohttp.WSCloseCode.UNSUPPORTED_DATA
            await good.send(p.Pingreq())
            assert await good.read() == p.Pingresp()
            assert "a" not in on.server.router.sessions

    listening(check)


def test_a_broken_rule_is_answered_and_the_socket_closes() -> None:
    async def check(on: Listening) -> None:
        async with on.client("c") as client:
            await client.frames.send_bytes(b"\x00\x00")
            said = await client.read()
            assert isinstance(said, p.Disconnect)
            assert said.reason == 0x81
            assert await client.read() == aiohttp.WSCloseCode.OK

    listening(check)


def test_a_lost_connection_publishes_the_will_and_a_good_one_does_not() -> None:
    async def check(on: Listening) -> None:
        async with on.client("watcher") as watcher:
            await watcher.send(p.Subscribe(1, (p.Subscription("will/#", 0),)))
            await watcher.read()
            for name in ("left", "lost"):
                async with on.client() as client:
                    will = p.Will(f"will/{name}", b"gone", 0)
                    await client.send(p.Connect(name, will=will))
                    await client.read()
                    if name == "left":
                        await client.send(p.Disconnect())
                        assert await client.read() == aiohttp.WSCloseCode.OK
            found = await watcher.read()
            assert isinstance(found, p.Publish)
            assert found.topic == "will/lost"

    listening(check)


def test_drain_says_good_bye_to_every_client() -> None:
    async def check(on: Listening) -> None:
        async with on.client("c") as client, on.client() as silent:
            draining = asyncio.create_task(on.server.drain())
            assert await client.read() == p.Disconnect(0x8B)
            assert await client.read() == aiohttp.WSCloseCode.OK
            assert await silent.read() == aiohttp.WSCloseCode.OK
            await draining

    listening(check)


def below(client: Client) -> asyncio.Transport:
    """Give the client's own connection, to stop it from reading."""
    connection = client.frames._response.connection
    assert connection is not None
    assert isinstance(connection.transport, asyncio.Transport)
    return connection.transport


def channel_to(server: Server, client_id: str) -> websocket.Channel:
    link = server.router.sessions[client_id].link
    (found,) = [one._transport for one in server.peers if one.connection is link]
    assert isinstance(found, websocket.Channel)
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the check's own deadline bounds it."""
    while not holds():  # noqa: ASYNC110  it is a state of the transport: nobody signals it
        await asyncio.sleep(0)


async def flood(on: Listening, client: Client, count: int, size: int) -> None:
    """Subscribe the client, stop it from reading, and publish to it until nothing more leaves."""
    await client.send(p.Subscribe(1, (p.Subscription("t", 0),)))
    assert isinstance(await client.read(), p.Suback)
    below(client).pause_reading()
    kernel = below(client).get_extra_info("socket")
    kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    channel = channel_to(on.server, "slow")
    async with on.client("publisher") as publisher:
        for _ in range(count):
            await publisher.send(p.Publish("t", bytes(size)))
        await publisher.send(p.Pingreq())
        assert await publisher.read() == p.Pingresp()
    await until(lambda: channel._is_full and channel._below.get_write_buffer_size() > 0)
    for _ in range(1_000):  # turns of the loop, each of which would take more of the queue
        await asyncio.sleep(0)


def test_a_slow_reader_costs_a_bounded_channel_and_misses_nothing() -> None:
    async def check(on: Listening) -> None:
        async with on.client("slow") as slow:
            count, size = 1_000, 20_000
            await flood(on, slow, count, size)
            session = on.server.router.sessions["slow"]
            assert session.held_bytes > 1_000_000
            channel = channel_to(on.server, "slow")
            held_bytes = channel.get_write_buffer_size() + channel._below.get_write_buffer_size()
            assert held_bytes <= 2 * (LIMITS.write_buffer_bytes + 2 * size)
            below(slow).resume_reading()
            for _ in range(count):
                assert isinstance(await slow.read(), p.Publish)
            assert session.held_bytes == 0

    listening(check)


def test_one_that_is_not_to_be_read_waits() -> None:
    async def check(on: Listening) -> None:
        async with on.client("a") as client, on.client("b") as other:
            channel = channel_to(on.server, "a")
            channel.pause_reading()
            await client.send(p.Pingreq())  # the read that is under way takes this one
            assert await client.read() == p.Pingresp()
            before = on.server.counts.messages_received
            for _ in range(5):
                await client.send(p.Publish("t", b"x"))
                await other.send(p.Pingreq())
                assert await other.read() == p.Pingresp()
            assert on.server.counts.messages_received == before + 5  # the other's
            channel.resume_reading()
            await client.send(p.Pingreq())
            assert await client.read() == p.Pingresp()
            assert on.server.counts.messages_received == before + 11

    listening(check)


def test_one_that_never_reads_is_cut_once_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "CLOSE_S_MAX", 0.05)
    monkeypatch.setattr(websocket_listener, "CLOSE_S_MAX", 0.05)

    async def check(on: Listening) -> None:
        async with on.client("slow") as deaf:
            await flood(on, deaf, 1_000, 20_000)
            channel = channel_to(on.server, "slow")
            await deaf.frames.send_str("text")
            await until(lambda: not channel._below.get_write_buffer_size())
            await until(lambda: not on.server.peers)
            below(deaf).abort()

    listening(check)


@pytest.mark.parametrize("version", [MQTTv311, MQTTv5])
def test_paho_over_websockets(version: MQTTProtocolVersion) -> None:
    async def check(on: Listening) -> None:
        found: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        paho = Paho(
            CallbackAPIVersion.VERSION2, "paho", protocol=version, transport="websockets",
            reconnect_on_failure=False,
        )  # fmt: skip
        payloads = [bytes([one]) * size for one, size in enumerate((0, 10, 200, 60_000))]
        paho.on_connect = lambda *_: paho.subscribe("t", 1)
        paho.on_subscribe = lambda *_: [paho.publish("t", one, 1) for one in payloads]
        paho.on_message = lambda _c, _u, message: found.put(message.payload)
        port = int(on.url.rsplit(":", 1)[1])
        await asyncio.to_thread(paho.connect, "127.0.0.1", port)
        paho.loop_start()
        try:
            for payload in payloads:
                assert await asyncio.to_thread(found.get, timeout=TIMEOUT_S) == payload
        finally:
            paho.disconnect()
            await asyncio.to_thread(paho.loop_stop)

    listening(check)
