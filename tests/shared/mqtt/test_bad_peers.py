"""Brokers that refuse, talk garbage, read slowly or are not there."""

import asyncio
import socket
import threading
from asyncio import selector_events
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from tests.shared.mqtt.node import WAIT_S, Node, settings

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
CONNACK = encode(p.Connack(session_present=False, reason=0))


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(r)["why"] for r in caplog.records if r.message == "link_down"]


async def after_connections(count: int, answer: bytes, *subscriptions: str) -> None:
    """Run a link against a broker that says `answer` to each CONNECT, for `count` connections."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.read(1000)
        writer.write(answer)
        if connections == count:
            node.link.drain()
        await reader.read()
        writer.close()

    async with asyncio.timeout(WAIT_S):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            node = Node(settings(server.sockets[0].getsockname()[:2], "bad"), *subscriptions)
            await node.link.run()
    assert node.ups.empty()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (encode(p.Connack(session_present=False, reason=0x86)), "Bad user name or password"),
        (CONNACK + encode(p.Suback(1, (0x87,))), "refused subscriptions: t: Not authorized"),
        (b"HTTP/1.1 400 Bad Request\r\n" + bytes(100), "rotocol error"),
        (b"\x20\xff\xff\xff\xff\x01", "rotocol error"),
        (CONNACK + b"\x32\x03\x00\x09a", "no MQTT"),
        (CONNACK + b"\x32\x07\x00\x01t\x00\x01\xff\xff", "rotocol error"),
        (CONNACK + b"\x40\x01\x00", "no MQTT"),
        (CONNACK + b"\x32\x06\x00\x01\xff\x00\x01\x00", "no MQTT"),
    ],
)
def test_a_broker_that_refuses_or_talks_garbage_is_reported_once(
    answer: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(after_connections(4, answer, "t"))
    (reported,) = reasons(caplog)
    assert reported
    assert why in reported


@pytest.mark.parametrize("moment", ["name", "connect"])
def test_drain_ends_a_connect_attempt_at_once(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    never, asked = threading.Event(), threading.Event()

    def look_up(*_: Any, **__: Any) -> list[Any]:
        asked.set()
        never.wait(WAIT_S)
        return []

    async def check() -> float:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            address = full.getsockname()
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(address)
            host, port = ("nowhere.example", 1883) if moment == "name" else address
            node = Node(settings((host, port), "d"))
            task = asyncio.create_task(node.link.run())
            if moment == "name":
                await asyncio.to_thread(asked.wait, WAIT_S)
            else:
                await started.wait()
            began = loop.time()
            node.link.drain()
            await task
            for filler in fillers:
                filler.close()
            return loop.time() - began

    started = asyncio.Event()
    if moment == "name":
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
    else:
        real = selector_events.BaseSelectorEventLoop.sock_connect

        async def sock_connect(self: Any, sock: Any, address: Any) -> None:
            started.set()
            await real(self, sock, address)

        monkeypatch.setattr(selector_events.BaseSelectorEventLoop, "sock_connect", sock_connect)
    try:
        assert asyncio.run(check()) < 1
    finally:
        never.set()


def test_a_peer_that_does_not_read_holds_nobody() -> None:
    """What is written waits in the transport, bounded by the window; drain does not wait for it."""
    size, window = 100_000, 60

    async def check() -> None:
        read = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1000)
            writer.write(CONNACK)
            await read.wait()
            taken = 0
            while taken < size * window:
                taken += len(await reader.read(1 << 20))
            writer.write(b"".join(encode(p.Puback(n + 1)) for n in range(window)))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        node = Node(settings(server.sockets[0].getsockname()[:2], "slow", window=window))
        async with server, asyncio.timeout(WAIT_S), asyncio.TaskGroup() as parts:
            parts.create_task(node.link.run())
            await node.ups.get()
            sent = [node.link.publish("t", bytes(size)) for _ in range(window)]
            assert node.link.room == 0
            read.set()
            assert await asyncio.gather(*sent) == [0] * window
            node.link.drain()

    asyncio.run(check())


def test_a_lost_link_is_reported_again_after_it_was_back(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        connections = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await reader.read(1000)
            writer.write(CONNACK)
            if connections == 3:
                node.link.drain()
            writer.close()

        async with asyncio.timeout(WAIT_S):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            async with server:
                node = Node(settings(server.sockets[0].getsockname()[:2], "lost"))
                await node.link.run()

    asyncio.run(check())
    assert reasons(caplog) == ["the broker closed the connection"] * 2
