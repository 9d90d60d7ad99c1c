"""The asynchronous tier over real HTTP, in an application of its own, with the API's middleware."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from aiohttp import web

from cloud.api.middleware import IDENTITY, reporting
from cloud.jobs.record import Claimed
from cloud.jobs.routes import accepted, result_routes
from cloud.jobs.service import Jobs
from shared.errors import DeadlineMissed, Malformed, NotTrusted, TooLarge, Unavailable
from shared.oip.body import HEADER_LENGTH, Encoded
from shared.trace import NOISE_BYTES, identify
from tests.cloud.jobs.sample import CALLER, Echo, answer_to, count, counts, rules, until, url_in

Before = Callable[[Claimed], Awaitable[None]]


def caller_of(request: web.Request) -> str:
    if "X-Caller" not in request.headers:
        raise NotTrusted("who are you?")
    return request.headers["X-Caller"]


@dataclass(frozen=True, slots=True)
class Told:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Scene:
    def __init__(self, jobs: Jobs, session: aiohttp.ClientSession, found: Any) -> None:
        self.jobs, self.session, self.counts = jobs, session, found

    async def post(self, body: bytes = b"{}", caller: str = CALLER, **headers: str) -> Told:
        sent = {"X-Caller": caller} | {k.replace("_", "-"): v for k, v in headers.items()}
        return await self._ask("POST", "/infer", sent, data=body)

    async def get(self, path: str, caller: str = CALLER) -> Told:
        return await self._ask("GET", path, {"X-Caller": caller})

    async def delete(self, path: str, caller: str = CALLER) -> Told:
        return await self._ask("DELETE", path, {"X-Caller": caller})

    async def _ask(self, method: str, path: str, headers: dict[str, str], **more: Any) -> Told:
        async with self.session.request(method, path, headers=headers, **more) as answer:
            return Told(answer.status, answer.headers, await answer.read())


def play(
    folder: Path,
    script: Callable[[Scene], Awaitable[None]],
    before: Before | None = None,
    *,
    echo: Echo | None = None,
    ahead_s: float = 0,
    **over: Any,
) -> Any:
    async def main() -> Any:
        found = counts()
        jobs = Jobs(
            url_in(folder), rules(**over), echo or Echo(before), found,
            wall=lambda: time.time() + ahead_s,
        )  # fmt: skip
        await jobs.open()
        running = asyncio.create_task(jobs.run())
        try:
            async with serving(jobs) as url, aiohttp.ClientSession(url) as session:
                await script(Scene(jobs, session, found))
        finally:
            jobs.drain()
            await running
            await jobs.close()
        return found

    return asyncio.run(main())


@asynccontextmanager
async def serving(jobs: Jobs) -> AsyncIterator[str]:
    @web.middleware
    async def identifying(request: web.Request, handler: Any) -> web.StreamResponse:
        request[IDENTITY] = identify(None, None, bytes(NOISE_BYTES))
        return await handler(request)  # type: ignore[no-any-return]  # aiohttp's handler

    async def infer(request: web.Request) -> web.Response:
        return accepted(
            await jobs.desk.accept(
                caller_of(request), model="tiny", version=None, body=await request.read(),
                header_length=None, webhook=request.headers.get("X-Webhook"),
                idempotency_key=request.headers.get("Idempotency-Key"),
            )
        )  # fmt: skip

    app = web.Application(middlewares=[identifying, reporting(lambda _: None)])
    app.router.add_post("/infer", infer)
    app.add_routes(result_routes(jobs.desk, caller_of))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def body_of(told: Told) -> Any:
    return json.loads(told.body)


async def hangs(_: Claimed) -> None:
    await asyncio.Event().wait()


def test_accepted_then_answered_as_the_synchronous_route_would(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        taken = await scene.post(b'{"n":1}')
        assert taken.status == 202
        where = taken.headers["Location"]
        assert where == (body_of(taken))["location"]
        done = await scene.get(where + "?wait_ms=10000")
        assert (done.status, done.body) == (200, answer_to(b'{"n":1}').body)
        assert done.headers["Content-Type"] == "application/json"
        assert (await scene.get(where)).status == 200  # and again

    counted = play(tmp_path, script)
    assert (count(counted, "accepted"), count(counted, "done")) == (1, 1)


def test_what_was_fetched_is_kept_for_a_while_and_what_was_looked_at_while_it_ran_is_not_fetched(
    tmp_path: Path,
) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        while (await scene.get(where)).status == 202:
            await scene.jobs.desk.finish()
        await scene.jobs.desk.finish()
        (view,) = await scene.jobs.desk.page(CALLER, 1)
        assert view.kept_until is not None
        assert 0 < view.kept_until - time.time() <= 3_600

    play(tmp_path, script)


def test_a_binary_answer_has_its_header(tmp_path: Path) -> None:
    class Binary(Echo):
        async def answer(self, job: Claimed, deadline: float) -> Encoded:
            return Encoded(b"{}\0\1\2", 2)

    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        done = await scene.get(where + "?wait_ms=10000")
        assert (done.body, done.headers[HEADER_LENGTH]) == (b"{}\0\1\2", "2")
        assert done.headers["Content-Type"] == "application/octet-stream"

    play(tmp_path, script, echo=Binary())


def test_while_it_runs_the_answer_says_so_and_when_to_come_again(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        still = await scene.get(where + "?wait_ms=1")
        assert (still.status, still.headers["Retry-After"]) == (202, "1")
        assert (body_of(still))["status"] in {"queued", "running"}
        assert (await scene.delete(where)).status == 204

    play(tmp_path, script, hangs, attempt_s=1)


def test_whoever_polls_is_told_at_once(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def waits(_: Claimed) -> None:
        await gate.wait()

    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        polling = [asyncio.create_task(scene.get(where + "?wait_ms=20000")) for _ in range(3)]
        await until(lambda: scene.jobs._waits._count == 3)
        gate.set()
        async with asyncio.timeout(10):
            assert {(await poll).status for poll in polling} == {200}
        assert scene.jobs._waits._waiting == {}

    play(tmp_path, script, waits, look_s=60)


def test_whoever_polls_is_told_of_another_process_result_within_a_look(tmp_path: Path) -> None:
    """The second process is a second `Jobs` here; this one takes no jobs, its hands are full."""

    async def script(scene: Scene) -> None:
        await scene.post()  # fills this one's only hand
        await until(lambda: scene.jobs.in_hand == 1)
        where = (await scene.post(b"[2]")).headers["Location"]
        polling = asyncio.create_task(scene.get(where + "?wait_ms=20000"))
        await until(lambda: scene.jobs._waits._count == 1)
        other = Jobs(url_in(tmp_path), rules(), Echo(), counts())
        running = asyncio.create_task(other.run())
        async with asyncio.timeout(10):
            assert (await polling).status == 200
        other.drain()
        await running
        await other.close()

    play(tmp_path, script, hangs, in_hand_max=1, attempt_s=3, look_s=0.05)


def test_over_its_bound_a_poll_is_answered_at_once(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        first = asyncio.create_task(scene.get(where + "?wait_ms=20000"))
        await until(lambda: scene.jobs._waits._count == 1)
        async with asyncio.timeout(10):
            assert (await scene.get(where + "?wait_ms=20000")).status == 202
            await scene.delete(where)
            assert (await first).status == 410  # whoever waits is told of a cancel too

    play(tmp_path, script, hangs, attempt_s=1, waits_max=1, look_s=60)


def test_a_drain_lets_who_polls_go(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        poll = asyncio.create_task(scene.get(where + "?wait_ms=20000"))
        await until(lambda: scene.jobs._waits._count == 1)
        scene.jobs.drain()
        async with asyncio.timeout(10):
            assert (await poll).status == 202

    play(tmp_path, script, hangs, attempt_s=1)


def test_another_callers_job_is_not_there(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        theirs = [await scene.get(where, "key-2"), await scene.delete(where, "key-2")]
        none = await scene.get(f"/v1/results/{UUID(int=5)}", "key-2")
        assert {answer.status for answer in (*theirs, none)} == {404}
        # word for word the same but for the id that was asked for
        texts = [body_of(answer)["detail"] for answer in (theirs[0], none)]
        assert texts[0].replace(where.split("/")[-1], str(UUID(int=5))) == texts[1]
        assert (await scene.get("/v1/results/nonsense")).status == 404

    play(tmp_path, script)


def test_nobody_is_told_anything_without_a_credential(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        for method, path in (("GET", where), ("DELETE", where), ("GET", "/v1/results")):
            async with scene.session.request(method, path) as answer:
                assert answer.status == 401

    play(tmp_path, script)


def test_cancelled_is_gone_and_deleted_is_not_there(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        assert (await scene.delete(where)).status == 204
        assert (await scene.get(where)).status == 410
        assert (await scene.delete(where)).status == 204
        assert (await scene.get(where)).status == 404
        assert (await scene.delete(where)).status == 404

    counted = play(tmp_path, script, hangs, attempt_s=1)
    assert count(counted, "cancelled") == 1


def test_expired_is_gone(tmp_path: Path) -> None:
    where = ""

    async def give(scene: Scene) -> None:
        nonlocal where
        where = (await scene.post()).headers["Location"]

    async def fetch(scene: Scene) -> None:
        answer = await scene.get(where + "?wait_ms=5000")
        assert answer.status == 410
        assert "no answer within" in (body_of(answer))["detail"]

    async def later(_: Claimed) -> None:
        raise Unavailable("later")

    play(tmp_path, give, later)
    play(tmp_path, fetch, ahead_s=2 * 86_400, look_s=0.05)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Malformed("no such input"), 400), (TooLarge("too many rows"), 413),
        (DeadlineMissed("too slow"), 504), (Unavailable("away"), 503), (ValueError("a bug"), 500),
    ],
    ids=str,
)  # fmt: skip
def test_a_failure_is_the_problem_that_the_synchronous_route_would_give(
    tmp_path: Path, error: Exception, status: int
) -> None:
    async def fails(_: Claimed) -> None:
        raise error

    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        answer = await scene.get(where + "?wait_ms=10000")
        assert answer.status == status
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        detail = (body_of(answer))["detail"]
        assert detail == ("a fault of this server; see its log" if status == 500 else str(error))

    play(tmp_path, script, fails, attempts_max=1)


def test_the_same_key_gives_the_same_job_and_another_body_is_refused(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        first = await scene.post(b'{"n":1}', Idempotency_Key="k")
        again = await scene.post(b'{"n":1}', Idempotency_Key="k")
        other = await scene.post(b'{"n":2}', Idempotency_Key="k")
        assert first.headers["Location"] == again.headers["Location"]
        assert (first.status, again.status, other.status) == (202, 202, 400)
        for bad in ("x" * 256, "a b"):
            assert (await scene.post(Idempotency_Key=bad)).status == 400

    counted = play(tmp_path, script)
    assert (count(counted, "accepted"), count(counted, "repeated")) == (1, 1)


def test_over_a_bound_it_is_429_with_words_and_a_time(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        assert (await scene.post()).status == 202
        full = await scene.post()
        assert (full.status, full.headers["Retry-After"]) == (429, "60")
        assert "you have 1 jobs here of 1" in (body_of(full))["detail"]

    counted = play(tmp_path, script, caller_jobs_max=1)
    assert count(counted, "over_bounds") == 1


def test_a_webhook_to_a_private_address_is_refused_at_once(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        for url in ("https://127.0.0.1/", "https://169.254.169.254/", "https://[::1]/"):
            answer = await scene.post(X_Webhook=url)
            assert answer.status == 400
            assert "not public" in (body_of(answer))["detail"]

    counted = play(tmp_path, script)
    assert count(counted, "guarded", why="address") == 3
    assert count(counted, "accepted") == 0


def test_own_jobs_in_pages(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        ids = [(body_of(await scene.post()))["id"] for _ in range(5)]
        await scene.post(caller="key-2")
        await scene.get(f"/v1/results/{ids[-1]}?wait_ms=10000")
        found: list[str] = []
        path: str | None = "/v1/results?limit=2"
        while path is not None:
            page = body_of(await scene.get(path))
            found += [one["id"] for one in page["results"]]
            path = page["next"] and f"/v1/results?limit=2&before={page['next']}"
        assert found == ids[::-1]
        (newest, *_) = (body_of(await scene.get("/v1/results")))["results"]
        assert newest["status"] == "done"
        assert newest["kept_until"] >= newest["ended_at"] >= newest["created_at"]

    play(tmp_path, script)


@pytest.mark.parametrize(
    "path",
    ["/v1/results?limit=0", "/v1/results?limit=201", "/v1/results?limit=x", "/v1/results?limit=-1",
     "/v1/results/{id}?wait_ms=x", "/v1/results/{id}?wait_ms=-1", "/v1/results/{id}?wait_ms=1e3",
     "/v1/results/{id}?wait_ms=99999999999999999999"],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(tmp_path: Path, path: str) -> None:
    async def script(scene: Scene) -> None:
        id_ = (body_of(await scene.post()))["id"]
        assert (await scene.get(path.replace("{id}", id_))).status == 400

    play(tmp_path, script)


def test_what_is_accepted_while_it_drains_is_the_next_starts(tmp_path: Path) -> None:
    where: list[str] = []

    async def give(scene: Scene) -> None:
        scene.jobs.drain()
        told = [await scene.post(b"[%d]" % n) for n in range(3)]
        where.extend(one.headers["Location"] for one in told)

    async def fetch(scene: Scene) -> None:
        for n, path in enumerate(where):
            answer = await scene.get(path + "?wait_ms=10000")
            assert (answer.status, answer.body) == (200, answer_to(b"[%d]" % n).body)

    play(tmp_path, give)
    play(tmp_path, fetch)


def test_after_its_end_nobody_waits_for_ever(tmp_path: Path) -> None:
    async def script(scene: Scene) -> None:
        where = (await scene.post()).headers["Location"]
        scene.jobs._commits.close()
        for told in (await scene.get(where), await scene.post()):
            assert (told.status, b"shutting down" in told.body) == (503, True)

    play(tmp_path, script)
