"""One cloud worker: broker (or the address of one), models, ingest, store, API, in one TaskGroup.

A part that dies takes the process down; its supervisor starts it again.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from pathlib import Path

from cloud.api.app import ApiServer, Parts, listening
from cloud.api.schemas import ModelStatus, Status
from cloud.broker.launch import BrokerAddress, broker_running
from cloud.config import Config
from cloud.ingest.desk import Desk
from cloud.ingest.downlink import Downlink
from cloud.ingest.inbox import Inbox
from cloud.ingest.memory import AnswerMemory
from cloud.monitoring.metrics import Metrics
from cloud.serving.inference import Inference
from cloud.serving.pool import ModelPool
from cloud.store.feedback import Bounds, FeedbackTable, Written
from cloud.store.lookup import AnswerLookup
from cloud.store.writer import FeedbackWriter
from shared.errors import Unavailable
from shared.mqtt.link import Link
from shared.mqtt.settings import LinkSettings
from shared.topics import ESCALATIONS_SHARED

log = logging.getLogger(__name__)


class Service:
    """`run` once. `ready` is called with the API's and the broker's URL when it can answer."""

    def __init__(self, config: Config, ready: Callable[[str, str], None]) -> None:
        self._config, self._announce = config, ready
        self._metrics = Metrics()
        self._stop = asyncio.Event()
        self._link_up = asyncio.Event()
        self._pool: ModelPool | None = None
        self._inbox: Inbox | None = None
        self._writer: FeedbackWriter | None = None
        self._broker: str | None = None
        self._address: BrokerAddress | None = None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Take nothing new; `run` returns once everything accepted is answered."""
        self._stop.set()

    async def run(self) -> bool:
        """Serve until `stop`; whether everything accepted was finished within `drain_s`.

        Raises `Refused` or `Unavailable` when it cannot start, or a group of what a part died of.
        """
        config = self._config
        try:
            config.state_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"state_dir {config.state_dir}: {error.strerror}") from error
        pool = self._pool = self._new_pool()
        parts = Parts(pool, Inference(), self.status, self._metrics, config.batching)
        async with (
            ApiServer(parts, config.api).serving() as protocol,
            listening(protocol, config.api.host, config.api.port) as api,
            broker_running(config.broker) as address,
        ):
            scheme = "mqtts" if address.tls else "mqtt"
            self._broker = f"{scheme}://{address.host}:{address.port}"
            self._address = address
            try:
                await pool.start()
            except BaseException:
                await pool.close()
                raise
            table = FeedbackTable(
                config.store_url, Bounds(config.store.rows_max, config.store.bytes_max)
            )
            await asyncio.to_thread(table.open)
            lookup = AnswerLookup(table)
            try:
                return await self._serve(pool, table, lookup, address, api)
            finally:
                lookup.close()
                table.close()
                await pool.close()

    def read_access_again(self) -> None:
        """Have the broker read its password and ACL files again, if it is ours."""
        if self._address is not None:
            self._address.read_access_again()

    def status(self) -> Status:
        pool = self._pool
        because = (
            "shutting down" if self._stop.is_set()
            else "models are loading" if pool is None
            else pool.why_not_ready if not pool.ready
            else "the broker is not connected" if not self._link_up.is_set()
            else "the feedback store is down" if self._writer is None or not self._writer.up
            else None
        )  # fmt: skip
        return Status(
            name=self._config.name,
            ready=because is None,
            not_ready_because=because,
            broker=self._broker,
            in_hand=self._inbox.in_hand if self._inbox else 0,
            store_up=self._writer is not None and self._writer.up,
            models=tuple(
                ModelStatus(
                    name=s.model.name, version=s.model.version,
                    answers_for=s.model.manifest.answers_for, variant=s.model.variant,
                    why=s.model.why, queue_depth=s.batcher.depth, batch_ms=s.model.curve.table_ms(),
                )
                for s in (pool.served if pool else ())
            ),
        )  # fmt: skip

    def _new_pool(self) -> ModelPool:
        def on_batch(size: int, _run_s: float) -> None:
            self._metrics.batch_size.observe(size)

        config = self._config
        return ModelPool(
            config.models, pool=config.pool, batching=config.batching,
            cache_dir=config.state_dir / "engines", on_batch=on_batch,
        )  # fmt: skip

    async def _serve(
        self,
        pool: ModelPool,
        table: FeedbackTable,
        lookup: AnswerLookup,
        address: BrokerAddress,
        api: str,
    ) -> bool:
        config, metrics = self._config, self._metrics
        writer = self._writer = FeedbackWriter(
            table, pending_max=config.store.pending_max,
            on_written=self._count_written, on_failure=metrics.store_failures.inc,
        )  # fmt: skip
        desk = Desk(pool, AnswerMemory(config.ingest.remembered_max), lookup, metrics)
        replies = Downlink()
        inbox = self._inbox = Inbox(desk, replies, writer, metrics)
        link = self._link(address, inbox, replies)
        replies.through(link)
        finished = False
        async with asyncio.TaskGroup() as parts:
            watch = parts.create_task(address.watch(), name="broker")
            writing = parts.create_task(writer.run(), name="feedback-writer")
            linked = parts.create_task(link.run(), name="link")
            await self._up_or_stopped()
            if not self._stop.is_set():
                self._announce(api, self._broker or "")
            await self._stop.wait()
            log.info("draining", extra={"in_hand": inbox.in_hand})
            inbox.close()
            try:
                async with asyncio.timeout(config.drain_s):
                    await inbox.finish()
                    await pool.drain()
                    writer.drain()
                    await writing
                    link.drain()
                    await linked
                    finished = True
            except TimeoutError:
                log.error("drain_cut", extra={"in_hand": inbox.in_hand})  # noqa: TRY400  no trace to show
            for part in (watch, writing, linked):
                part.cancel()
        return finished

    def _link(self, address: BrokerAddress, inbox: Inbox, replies: Downlink) -> Link:
        def on_up(_session_kept: bool) -> None:
            self._metrics.link_up.set(1)
            self._link_up.set()

        def on_down() -> None:
            self._metrics.link_up.set(0)
            self._link_up.clear()
            replies.lost()

        host, port, tls = address.for_owner
        ingest, client_id = self._config.ingest, f"hybridge-{self._config.name}"
        if not ingest.session_expiry_s:  # no session to come back to, so no one to push off it
            client_id += f"/{secrets.token_hex(4)}"  # a certificate's name binds what is before /
        settings = LinkSettings(
            host=host, port=port, client_id=client_id,
            username=address.username, password=address.password,
            tls=tls, tls_ca=_text(ingest.tls_ca),
            tls_certificate=_text(ingest.tls_cert), tls_key=_text(ingest.tls_key),
            keepalive_s=ingest.keepalive_s, session_expiry_s=ingest.session_expiry_s,
            backoff_s_max=ingest.backoff_s_max,
            window=ingest.receive_max, receive_max=ingest.receive_max,
        )  # fmt: skip
        return Link(
            settings, subscriptions=(ESCALATIONS_SHARED,),
            on_delivery=inbox.take, on_up=on_up, on_down=on_down,
        )  # fmt: skip

    async def _up_or_stopped(self) -> None:
        waits = {asyncio.ensure_future(e.wait()) for e in (self._link_up, self._stop)}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _count_written(self, written: Written) -> None:
        self._metrics.stored.inc(written.inserted)
        self._metrics.evicted.inc(written.evicted)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
