"""The MQTT path of one serving process: escalations in, answers out, rows for training kept."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from cloud.broker.launch import BrokerAddress
from cloud.config import Config
from cloud.ingest.desk import Desk
from cloud.ingest.downlink import Downlink
from cloud.ingest.inbox import Inbox
from cloud.ingest.memory import AnswerMemory
from cloud.monitoring.metrics import Metrics
from cloud.store.evicting import Bounds
from cloud.store.feedback import FeedbackTable, Written
from cloud.store.lookup import AnswerLookup
from cloud.store.writer import FeedbackWriter
from cloud.tier import Tier
from shared.mqtt.link import Link
from shared.mqtt.settings import LinkSettings
from shared.topics import ESCALATIONS_SHARED


class Worker:
    """`start`, then `leave` while the models still answer."""

    def __init__(
        self, config: Config, address: BrokerAddress, table: FeedbackTable, desk: Desk,
        metrics: Metrics,
    ) -> None:  # fmt: skip
        self._metrics = metrics
        self.link_up = asyncio.Event()
        self._writer = FeedbackWriter(
            table, pending_max=config.store.pending_max,
            on_written=self._count_written, on_failure=metrics.store_failures.inc,
        )  # fmt: skip
        self._replies = Downlink()
        self._inbox = Inbox(desk, self._replies, self._writer, metrics)
        self._link = Link(
            link_settings(config, address), subscriptions=(ESCALATIONS_SHARED,),
            on_delivery=self._inbox.take, on_up=self._on_up, on_down=self._on_down,
        )  # fmt: skip
        self._replies.through(self._link)
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    @property
    def in_hand(self) -> int:
        return self._inbox.in_hand

    @property
    def store_up(self) -> bool:
        return self._writer.up

    @property
    def why_not_ready(self) -> str | None:
        if not self.link_up.is_set():
            return "the broker is not connected"
        return None if self._writer.up else "the feedback store is down"

    def start(self, parts: asyncio.TaskGroup) -> None:
        self._tasks = (
            parts.create_task(self._writer.run(), name="feedback-writer"),
            parts.create_task(self._link.run(), name="link"),
        )

    async def leave(self) -> None:
        """Take nothing more, answer and acknowledge what was taken, write what waits, say goodbye.

        What comes meanwhile stays with the broker, for another worker.
        """
        self._inbox.close()
        await self._inbox.finish()
        if not self._tasks:  # it never started
            return
        writing, linked = self._tasks
        self._writer.drain()
        await writing
        self._link.drain()
        await linked

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _on_up(self, _session_kept: bool) -> None:
        self._metrics.link_up.set(1)
        self.link_up.set()

    def _on_down(self) -> None:
        self._metrics.link_up.set(0)
        self.link_up.clear()
        self._replies.lost()

    def _count_written(self, written: Written) -> None:
        self._metrics.stored.inc(written.inserted)
        self._metrics.evicted.inc(written.evicted)


@contextlib.asynccontextmanager
async def worker_ready(
    config: Config,
    address: BrokerAddress,
    tier: Tier,
    metrics: Metrics,
) -> AsyncIterator[Worker]:
    """A worker over an opened feedback store, which closes behind it."""
    store = config.store
    bounds = Bounds(store.rows_max, store.bytes_max, store.device_rows_share_max)
    table = FeedbackTable(config.store_url, bounds)
    await asyncio.to_thread(table.open)
    lookup = AnswerLookup(table)
    try:
        memory = AnswerMemory(config.ingest.remembered_max)
        desk = Desk(tier.pool, tier.inference, memory, lookup, metrics, tier.log, tier.experiments)
        yield Worker(config, address, table, desk, metrics)
    finally:
        lookup.close()
        table.close()


def link_settings(config: Config, address: BrokerAddress, part: str = "") -> LinkSettings:
    """How this process reaches its broker; each `part` of it that does has a client id of its own."""
    host, port, tls = address.for_owner
    ingest, name = config.ingest, f"{config.name}{part and '/' + part}"
    # a certificate of `worker`, as the access rules know it, binds what is before the first /
    client_id = f"hybridge-{name}" if ingest.tls_cert is None else f"worker/{name}"
    if not ingest.session_expiry_s:  # no session to come back to, so no one to push off it
        client_id += f"/{secrets.token_hex(4)}"
    return LinkSettings(
        host=host, port=port, client_id=client_id,
        username=address.username, password=address.password,
        tls=tls, tls_ca=_text(ingest.tls_ca),
        tls_certificate=_text(ingest.tls_cert), tls_key=_text(ingest.tls_key),
        keepalive_s=ingest.keepalive_s, session_expiry_s=ingest.session_expiry_s,
        backoff_s_max=ingest.backoff_s_max,
        window=ingest.receive_max, receive_max=ingest.receive_max,
    )  # fmt: skip


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
