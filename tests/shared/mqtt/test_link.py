"""The link over both real brokers."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from cloud.broker.launch import BrokerAddress
from shared.errors import Disconnected, Overloaded
from shared.mqtt.link import NO_SUBSCRIBERS, Delivery, Link
from shared.mqtt.settings import Will
from tests.brokers import BROKER_KINDS, BrokerKind, running_broker
from tests.shared.mqtt.node import WAIT_S, Node, running, settings


@pytest.fixture(scope="module", params=BROKER_KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerAddress]:
    with running_broker(request.param, tmp_path_factory.mktemp(request.param)) as address:
        yield address


def test_puback_says_whether_anybody_listens(broker: BrokerAddress) -> None:
    async def check() -> None:
        here, there = Node(settings(broker, "r1")), Node(settings(broker, "r2"), "r/heard")
        async with running(here, there):
            assert await here.link.publish("r/heard", b"x", expiry_s=30) == 0
            assert await here.link.publish("r/unheard", b"x") == NO_SUBSCRIBERS
            delivery = await there.got.get()
            assert (delivery.topic, delivery.payload) == ("r/heard", b"x")

    asyncio.run(check())


def test_the_window_bounds_what_is_in_flight(broker: BrokerAddress) -> None:
    async def check() -> None:
        node = Node(settings(broker, "w1", window=2))
        assert node.link.room == 0
        with pytest.raises(Disconnected):
            node.link.publish("w", b"")
        async with running(node):
            assert node.link.room == 2
            sent = [node.link.publish("w", b""), node.link.publish("w", b"")]
            assert node.link.room == 0
            with pytest.raises(Overloaded):
                node.link.publish("w", b"")
            await asyncio.gather(*sent)
            assert node.link.room == 2

    asyncio.run(check())


def test_many_deliveries_at_once_come_in_order(broker: BrokerAddress) -> None:
    async def check() -> None:
        here, there = Node(settings(broker, "m1", window=200)), Node(settings(broker, "m2"), "m")
        async with running(here, there):
            sent = [here.link.publish("m", bytes([n])) for n in range(200)]
            assert [(await there.got.get()).payload[0] for _ in sent] == list(range(200))
            assert await asyncio.gather(*sent) == [0] * 200

    asyncio.run(check())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_large_messages_both_ways_at_once(
    broker: BrokerAddress, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def check() -> None:
        a = Node(settings(broker, "l1", window=60), "l/a")
        b = Node(settings(broker, "l2", window=60), "l/b")
        message = bytes(range(250)) * 400
        async with running(a, b):
            sent = [
                n.link.publish(t, message) for _ in range(60) for n, t in ((a, "l/b"), (b, "l/a"))
            ]
            for node in (a, b):
                for _ in range(60):
                    assert (await node.got.get()).payload == message
            await asyncio.gather(*sent)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(check())


def test_an_unacknowledged_delivery_comes_again(broker: BrokerAddress) -> None:
    async def check() -> None:
        here = Node(settings(broker, "u1"))
        async with running(here):
            async with running(first := Node(settings(broker, "u2"), "u", acks=False)):
                await here.link.publish("u", b"again")
                await first.got.get()
            second = Node(settings(broker, "u2"), "u")
            async with running(second):
                assert (await second.got.get()).payload == b"again"

    asyncio.run(check())


def test_on_up_says_whether_the_session_was_kept(broker: BrokerAddress) -> None:
    async def check() -> list[bool]:
        kept = []
        for _ in range(2):
            node = Node(settings(broker, "s1"), "s")
            async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as parts:
                parts.create_task(node.link.run())
                kept.append(await node.ups.get())
                node.link.drain()
        return kept

    assert asyncio.run(check()) == [False, True]


def test_the_will_speaks_for_who_is_lost_and_not_for_who_leaves(broker: BrokerAddress) -> None:
    async def check() -> None:
        watcher = Node(settings(broker, "v1"), "v/+")
        async with running(watcher):
            leaves = Node(settings(broker, "v2"), will=Will("v/leaves", b"gone", retain=False))
            async with running(leaves):
                pass
            lost = Node(settings(broker, "v3"), will=Will("v/lost", b"gone", retain=False))
            async with running(lost):
                lost.cut()
                assert (await watcher.got.get()).topic == "v/lost"

    asyncio.run(check())


def test_a_handlers_exception_ends_run(broker: BrokerAddress) -> None:
    async def check() -> None:
        def fails(delivery: Delivery) -> None:
            raise ZeroDivisionError(delivery.topic)

        up = asyncio.Event()
        link = Link(
            settings(broker, "x1"), subscriptions=("x",), on_delivery=fails,
            on_up=lambda _: up.set(), on_down=lambda: None,
        )  # fmt: skip
        task = asyncio.create_task(link.run())
        async with asyncio.timeout(WAIT_S):
            await up.wait()
            link.publish("x", b"")
            with pytest.raises(ZeroDivisionError):
                await task

    asyncio.run(check())


@pytest.mark.parametrize("kind", BROKER_KINDS)
def test_a_killed_broker_fails_what_is_in_flight_and_the_link_comes_back(
    tmp_path: Path, kind: BrokerKind, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        with running_broker(kind, tmp_path / "one") as first:
            node = Node(settings(first, "k1"), "k")
            async with running(node):
                assert first.pid is not None
                os.kill(first.pid, signal.SIGSTOP)
                sent = node.link.publish("k", b"")
                os.kill(first.pid, signal.SIGKILL)
                with pytest.raises(Disconnected):
                    await sent
                await node.downs.get()
                assert node.link.room == 0
                with running_broker(kind, tmp_path / "two", port=first.port):
                    assert await node.ups.get() is False
                    assert await node.link.publish("k", b"") == 0
                    node.link.drain()
        assert [r.message for r in caplog.records if r.message == "link_down"] == ["link_down"]

    asyncio.run(check())
