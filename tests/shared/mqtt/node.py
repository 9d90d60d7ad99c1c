"""A link whose events a test can wait for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cloud.broker.launch import BrokerAddress
from shared.mqtt.link import Delivery, Link
from shared.mqtt.settings import LinkSettings, Will

WAIT_S = 10.0
"""Deadline of every wait; none of them is a pause."""


def settings(at: BrokerAddress | tuple[str, int], client_id: str, **more: Any) -> LinkSettings:
    host, port = at if isinstance(at, tuple) else (at.host, at.port)
    return LinkSettings(
        host, port, client_id, **{"backoff_s_min": 0.01, "backoff_s_max": 0.05} | more
    )


class Node:
    def __init__(
        self,
        link_settings: LinkSettings,
        *subscriptions: str,
        acks: bool = True,
        will: Will | None = None,
    ) -> None:
        self.got: asyncio.Queue[Delivery] = asyncio.Queue()
        self.ups: asyncio.Queue[bool] = asyncio.Queue()
        self.downs: asyncio.Queue[None] = asyncio.Queue()
        self._acks = acks
        self.link = Link(
            link_settings, subscriptions=subscriptions, on_delivery=self.take,
            on_up=self.ups.put_nowait, on_down=lambda: self.downs.put_nowait(None), will=will,
        )  # fmt: skip

    def take(self, delivery: Delivery) -> None:
        self.got.put_nowait(delivery)
        if self._acks:
            delivery.ack()

    def cut(self) -> None:
        """Lose the connection without DISCONNECT."""
        assert self.link._client is not None
        transport = self.link._client._wire._transport
        assert transport is not None
        transport.abort()


@asynccontextmanager
async def running(*nodes: Node) -> AsyncIterator[None]:
    """All up; drained at the end."""
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as parts:
        for node in nodes:
            parts.create_task(node.link.run())
        for node in nodes:
            await node.ups.get()
        yield
        for node in nodes:
            node.link.drain()
