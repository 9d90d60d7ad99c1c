"""Deliveries to real servers on loopback: signed, again until 2xx, 410 or the end, and bounded."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from cloud.jobs.claims import claim, finish
from cloud.jobs.commits import Commits
from cloud.jobs.counts import JobCounts
from cloud.jobs.database import JobDatabase
from cloud.jobs.record import Failure, Result
from cloud.jobs.results import fetched
from cloud.jobs.settings import JobSettings
from cloud.jobs.sweep import sweep
from cloud.jobs.webhooks.courier import Courier
from cloud.jobs.webhooks.outbox import claim_deliveries, delivered
from shared.oip.body import Encoded
from tests.cloud.jobs.sample import (
    CALLER,
    RULES,
    SECRET,
    count,
    counts,
    do,
    job,
    opened,
    put,
    rules,
    seen,
    until,
    url_in,
)  # fmt: skip
from tests.cloud.jobs.webhooks.receivers import Receiver, Reply, receiving, take

ANSWER = Encoded(b'{"model_name":"tiny"}', None)


class Scene:
    """A courier and a receiver; `clock` may be moved, and pauses are over then."""

    def __init__(self, database: JobDatabase, receiver: Receiver, **over: Any) -> None:
        hook = {
            "allow_http": True, "allow_private": ["127.0.0.0/8"], "ports": [receiver.port],
            "secrets": {CALLER: [SECRET]},
        }  # fmt: skip
        self.rules = rules(webhook=hook | over.pop("webhook", {}), **({"look_s": 0.01} | over))
        self.database, self.receiver, self.counts, self.clock = database, receiver, counts(), 1e9
        self.commits = Commits(database, 100)
        self.courier = Courier(
            self.commits, self.rules, self.counts, wall=lambda: self.clock, rng=Random(1)
        )

    def end_job(self, n: int = 1, outcome: Encoded | Failure = ANSWER, **over: Any) -> None:
        put(
            self.database, job(n, **({"webhook": self.receiver.url} | over)), self.clock, self.rules
        )
        (held,), _ = do(self.database, lambda t: claim(t, 1, self.rules, self.clock))
        do(self.database, lambda t: finish(t, held, outcome, self.rules, self.clock))

    def result(self, n: int = 1) -> Result:
        return seen(self.database, n)

    def delivery(self, n: int = 1) -> str | None:
        return self.result(n).view.delivery

    def counted(self, outcome: str) -> float:
        return count(self.counts, "deliveries", outcome=outcome)


def play(
    folder: Path, script: Callable[[Scene], Awaitable[None]], reply: Reply = take, **over: Any
) -> JobCounts:
    with opened(url_in(folder)) as database:

        async def main() -> JobCounts:
            async with receiving(reply) as receiver:
                scene = Scene(database, receiver, **over)
                running = asyncio.create_task(scene.courier.run())
                try:
                    await script(scene)
                finally:
                    scene.courier.drain()
                    await running
                    scene.commits.close()
                return scene.counts

        return asyncio.run(main())


def replies(*statuses: int, headers: dict[str, str] | None = None) -> Reply:
    left = list(statuses)

    async def reply(_: Receiver) -> web.StreamResponse:
        return web.Response(status=left.pop(0) if len(left) > 1 else left[0], headers=headers)

    return reply


def test_a_result_is_posted_once_and_its_signature_checks_out(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job()
        scene.courier.wake()
        await until(lambda: scene.delivery() == "delivered")
        (got,) = scene.receiver.got
        assert json.loads(got.body)["data"]["answer"] == {"model_name": "tiny"}
        id_, at = got.headers["webhook-id"], got.headers["webhook-timestamp"]
        assert (id_, at) == (f"msg_{job(1).id}", "1000000000")
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        expected = hmac.digest(key, f"{id_}.{at}.".encode() + got.body, hashlib.sha256)
        assert got.headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"
        assert got.headers["content-type"] == "application/json"

    counted = play(tmp_path, script)
    assert count(counted, "deliveries", outcome="delivered") == 1


def test_without_a_webhook_nothing_is_sent(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job(1, webhook=None)
        scene.end_job(2)
        await until(lambda: scene.delivery(2) == "delivered")
        assert scene.delivery(1) is None
        assert len(scene.receiver.got) == 1

    play(tmp_path, script)


def test_a_failure_is_told_too(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job(outcome=Failure("refused", "Malformed", "no such input"))
        await until(lambda: scene.delivery() == "delivered")
        assert json.loads(scene.receiver.got[0].body)["data"]["error"]["reason"] == "refused"

    play(tmp_path, script)


def test_it_is_sent_again_with_the_same_id_until_it_is_taken(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job()
        for sent in (1, 2, 3):
            await until(lambda sent=sent: scene.counted("retried") == sent)
            assert scene.delivery() == "pending"
            assert len(scene.receiver.got) == sent
            scene.clock += RULES.webhook.backoff_s_max
        await until(lambda: scene.delivery() == "delivered")
        assert len({got.headers["webhook-id"] for got in scene.receiver.got}) == 1
        assert len({got.body for got in scene.receiver.got}) == 1
        times = [got.headers["webhook-timestamp"] for got in scene.receiver.got]
        assert len(set(times)) == 4  # each attempt is signed for its own time

    play(tmp_path, script, replies(500, 429, 404, 204))


def test_gone_is_the_end(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job()
        await until(lambda: scene.delivery() == "given_up")
        assert scene.result().answer == ANSWER  # it can still be fetched

    counted = play(tmp_path, script, replies(410))
    assert count(counted, "deliveries", outcome="given_up") == 1


def test_attempts_are_bounded(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job()
        await until(lambda: scene.counted("retried") == 1)
        scene.clock += 600
        await until(lambda: scene.delivery() == "given_up")
        assert len(scene.receiver.got) == 2

    play(tmp_path, script, replies(500), webhook={"attempts_max": 2})


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job()
        await until(lambda: scene.counted("retried") == 1)
        assert len(scene.receiver.got) == 1

    play(tmp_path, script, replies(307, headers={"Location": "/elsewhere"}))


def test_an_answer_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    sent = 0

    async def pours(receiver: Receiver) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        assert receiver.request is not None
        await answer.prepare(receiver.request)
        with contextlib.suppress(ConnectionError):
            while sent < 512 * 1024**2:
                await answer.write(b"x" * 65_536)
                sent += 65_536
        return answer

    async def script(scene: Scene) -> None:
        scene.end_job()
        await until(lambda: scene.delivery() == "delivered")

    play(tmp_path, script, pours)
    assert sent < 64 * 1024**2


def test_a_receiver_that_hangs_is_cut_off(tmp_path: Path) -> None:
    async def hangs(_: Receiver) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async def script(scene: Scene) -> None:
        scene.end_job()
        await until(lambda: scene.counted("retried") == 1)

    play(tmp_path, script, hangs, webhook={"timeout_s": 0.2})


def test_one_callers_hanging_receiver_holds_up_no_other(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def first_ones_hang(receiver: Receiver) -> web.StreamResponse:
        if b"slow" in receiver.got[-1].body:
            await gate.wait()
        return web.Response()

    async def script(scene: Scene) -> None:
        for n in range(1, 41):
            scene.end_job(n, model="slow")
        await until(lambda: len(scene.receiver.got) >= 4)
        scene.end_job(50, caller="key-2")
        await until(lambda: scene.counted("delivered") == 1)
        assert b"tiny" in scene.receiver.got[-1].body
        assert len(scene.receiver.got) <= 8 + 1  # and of the one only about four are out
        gate.set()
        await until(lambda: all(scene.delivery(n) == "delivered" for n in range(1, 41)))

    secrets = {CALLER: [SECRET], "key-2": [SECRET]}
    play(tmp_path, script, first_ones_hang, webhook={"secrets": secrets})


def test_a_url_that_the_settings_no_longer_allow_is_not_asked(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job()
        await until(lambda: scene.counted("retried") == 1)
        assert scene.receiver.got == []

    counted = play(tmp_path, script, webhook={"allow_private": []})
    assert count(counted, "guarded", why="url") == 1


def test_a_name_that_has_come_to_mean_loopback_is_not_asked(tmp_path: Path) -> None:
    """The whole way, with the system's own answer for `localhost`."""

    async def script(scene: Scene) -> None:
        scene.end_job(webhook=f"http://localhost:{scene.receiver.port}/")
        await until(lambda: scene.counted("retried") == 1)
        assert scene.receiver.got == []

    counted = play(tmp_path, script, webhook={"allow_private": []})
    assert count(counted, "guarded", why="address") == 1


def test_what_was_delivered_is_kept_as_if_fetched_unless_the_answer_was_left_out(
    tmp_path: Path,
) -> None:
    async def script(scene: Scene) -> None:
        scene.end_job(1)
        scene.end_job(2, Encoded(b'{"a":"' + b"x" * 5_000 + b'"}', None))
        await until(lambda: scene.delivery(1) == scene.delivery(2) == "delivered")
        assert scene.result(1).view.kept_until == scene.clock + RULES.kept_s
        assert scene.result(2).view.kept_until == scene.clock + RULES.expiry_s

    play(tmp_path, script, webhook={"message_bytes_max": 1_000})


def hooked(database: JobDatabase, with_: JobSettings = RULES) -> None:
    put(database, job(1, webhook="https://a.example/"), 0.0, with_)
    (held,), _ = do(database, lambda t: claim(t, 1, with_, 0.0))
    do(database, lambda t: finish(t, held, ANSWER, with_, 0.0))


def test_a_delivery_of_a_process_that_died_is_anothers_after_the_lease(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        hooked(database)
        (first,) = do(database, lambda t: claim_deliveries(t, 1, RULES, 0.0))
        assert do(database, lambda t: claim_deliveries(t, 1, RULES, RULES.lease_s - 1)) == []
        (second,) = do(database, lambda t: claim_deliveries(t, 1, RULES, RULES.lease_s))
        assert second.attempts == 2
        assert not do(database, lambda t: delivered(t, first, RULES, 1.0, complete=True))
        assert do(database, lambda t: delivered(t, second, RULES, 1.0, complete=True))


def test_what_is_not_delivered_in_its_time_is_given_up_and_counted(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        hooked(database)
        assert do(database, lambda t: sweep(t, RULES, RULES.expiry_s - 1)).undelivered == 0
        assert do(database, lambda t: claim_deliveries(t, 1, RULES, RULES.expiry_s)) == []
        found = do(database, lambda t: sweep(t, RULES, RULES.expiry_s))
        assert (found.undelivered, found.given_up) == (1, {"unfetched": 1})
        assert do(database, lambda t: claim_deliveries(t, 1, RULES, RULES.expiry_s + 1)) == []


def test_a_result_that_was_fetched_is_not_deleted_while_it_is_to_be_delivered(
    tmp_path: Path,
) -> None:
    with opened(url_in(tmp_path)) as database:
        hooked(database)
        do(database, lambda t: fetched(t, job(1).id, RULES, 1.0))
        later = 2.0 + RULES.kept_s
        assert do(database, lambda t: sweep(t, RULES, later)).deleted == 0
        (sent,) = do(database, lambda t: claim_deliveries(t, 1, RULES, later))
        assert sent.answer == ANSWER
        do(database, lambda t: delivered(t, sent, RULES, later, complete=True))
        assert do(database, lambda t: sweep(t, RULES, later)).deleted == 1


def test_an_answer_that_was_delivered_is_not_one_that_nobody_fetched(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        hooked(database)
        (sent,) = do(database, lambda t: claim_deliveries(t, 1, RULES, 1.0))
        do(database, lambda t: delivered(t, sent, RULES, 1.0, complete=True))
        found = do(database, lambda t: sweep(t, RULES, 2.0 + RULES.kept_s))
        assert (found.given_up, found.deleted) == ({}, 1)


@pytest.mark.parametrize("poisoned", [False, True])
def test_a_job_that_was_given_up_is_told_of(tmp_path: Path, poisoned: bool) -> None:
    with opened(url_in(tmp_path)) as database:
        put(database, job(1, webhook="https://a.example/"), 0.0)
        at = RULES.expiry_s
        if poisoned:
            at = 0.0
            for _ in range(RULES.claims_max):
                do(database, lambda t, at=at: claim(t, 1, RULES, at))
                at += RULES.lease_s
        do(database, lambda t: sweep(t, RULES, at))
        (found,) = do(database, lambda t: claim_deliveries(t, 1, RULES, at))
        assert found.failure is not None
        assert found.failure.reason == ("poison" if poisoned else "expired")
