"""Delivers results to webhooks: at least once, until 2xx, 410 or their time is over."""

import asyncio
import logging
import time
from collections.abc import Callable
from random import Random

import aiohttp

from cloud.jobs.commits import Commits
from cloud.jobs.counts import JobCounts, Outcome
from cloud.jobs.database import Transaction
from cloud.jobs.pull import Pull
from cloud.jobs.record import Delivery
from cloud.jobs.settings import JobSettings, key_of
from cloud.jobs.webhooks import outbox
from cloud.jobs.webhooks.guard import LookUp, NotAllowed, checked_session, system_look_up
from cloud.jobs.webhooks.message import Message, message, message_id
from cloud.jobs.webhooks.signing import signed_headers
from cloud.jobs.webhooks.urls import target
from shared.backoff import pause_s
from shared.errors import Refused, Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)
_GONE = 410
_LOG_PERIOD_S = 60.0
_INLINE_BYTES = 8 * 1024
"""Of an answer that are turned into a message on the event loop."""


class Courier:
    """Belongs to one event loop."""

    def __init__(
        self,
        commits: Commits,
        rules: JobSettings,
        counts: JobCounts,
        *,
        look_up: LookUp = system_look_up,
        wall: Callable[[], float] = time.time,
        rng: Random | None = None,
    ) -> None:
        self._commits, self._rules, self._counts, self._wall = commits, rules, counts, wall
        self._look_up, self._rng = look_up, rng or Random()  # noqa: S311  for jitter
        self._pull = Pull(
            "deliveries", self._claim, self._deliver, in_hand_max=rules.webhook.in_flight_max,
            look_s=rules.look_s, group_max=rules.webhook.caller_in_flight_max,
        )  # fmt: skip
        self._once = OncePer(_LOG_PERIOD_S)
        self._session: aiohttp.ClientSession | None = None

    def wake(self) -> None:
        """Say that a job ended here."""
        self._pull.wake()

    def drain(self) -> None:
        """Take nothing more; `run` returns when what is out is settled, within `timeout_s`."""
        self._pull.drain()

    async def run(self) -> None:
        async with checked_session(self._rules.webhook, self._look_up) as self._session:
            await self._pull.run()

    async def _claim(self, count_max: int) -> list[Delivery]:
        return await self._commits.change(
            lambda t: outbox.claim_deliveries(t, count_max, self._rules, self._wall())
        )

    async def _deliver(self, delivery: Delivery) -> None:
        size = 0 if delivery.answer is None else len(delivery.answer.body)
        bytes_max = self._rules.webhook.message_bytes_max
        if size <= _INLINE_BYTES:
            content = message(delivery, bytes_max)
        else:
            content = await asyncio.to_thread(message, delivery, bytes_max)
        status, why = await self._post(delivery, content)
        try:
            outcome = await self._settle(delivery, content, status)
        except Unavailable as error:  # the lease ends, and it is sent again
            log.warning("delivery_not_noted", extra={"why": str(error)[:300]})
            return
        self._counts.deliveries[outcome].inc()
        if outcome == "delivered":
            return
        held_back = self._once.admits(f"{outcome} {status}", asyncio.get_running_loop().time())
        if held_back is not None:
            log.warning(
                "webhook_failed",
                extra={
                    "job": str(delivery.id), "attempt": delivery.attempts, "outcome": outcome,
                    "status": status, "why": why, "more_since_last": held_back,
                },
            )  # fmt: skip

    async def _post(self, delivery: Delivery, content: Message) -> tuple[int | None, str]:
        """The receiver's status, or None and why there is none."""
        rules = self._rules.webhook
        assert self._session is not None
        keys = [
            key_of(secret, delivery.caller) for secret in rules.secrets.get(delivery.caller, ())
        ]
        if not keys:
            self._counts.guarded["caller"].inc()
            return None, "the caller has no secret any more"
        headers = signed_headers(message_id(delivery), int(self._wall()), content.body, keys)
        headers |= {"Content-Type": "application/json", "User-Agent": "hybridge-webhooks/1"}
        try:
            url = target(delivery.url, rules).url  # the rules may be others by now
            async with self._session.post(
                url, data=content.body, headers=headers, allow_redirects=False
            ) as answer:
                await answer.content.read(rules.response_bytes_max)
                return answer.status, answer.reason or ""
        except Refused as error:
            self._counts.guarded["url"].inc()
            return None, str(error)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, NotAllowed):
                self._counts.guarded["address"].inc()
            return None, str(error)[:300]
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return None, f"{type(error).__name__}: {str(error)[:300]}"

    async def _settle(self, delivery: Delivery, content: Message, status: int | None) -> Outcome:
        rules, now = self._rules, self._wall()
        if status is not None and 200 <= status < 300:
            await self._commits.change(
                lambda t: outbox.delivered(t, delivery, rules, now, complete=content.complete)
            )
            return "delivered"
        pause = pause_s(
            delivery.attempts, rules.webhook.backoff_s_min, rules.webhook.backoff_s_max, self._rng
        )
        if (
            status == _GONE
            or delivery.attempts >= rules.webhook.attempts_max
            or now + pause >= delivery.until
        ):
            await self._commits.change(lambda t: outbox.give_up(t, delivery))
            return "given_up"

        def later(transaction: Transaction) -> bool:
            return outbox.deliver_later(transaction, delivery, now + pause)

        await self._commits.change(later)
        return "retried"
