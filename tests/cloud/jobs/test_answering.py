"""Stored requests through the real reading, a real model and the real writing."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from cloud.api.answer import write_answer
from cloud.api.call import read_call
from cloud.api.settings import CallLimits
from cloud.jobs.answering import OipAnswering
from cloud.jobs.record import Claimed
from cloud.jobs.runner import JobRunner
from cloud.monitoring.answer_log import AnswerLog
from cloud.monitoring.inference_log import InferenceLog
from cloud.monitoring.settings import InferenceLogSettings
from cloud.serving.inference import Answer, Inference
from cloud.serving.job import Outputs, Priority, Rows
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from shared.errors import DeadlineMissed, Malformed, Refused, Unknown
from shared.oip.body import Encoded
from shared.oip.request import InferRequest, RequestedOutput, encode_request
from shared.oip.tensors import Tensor
from tests.cloud.inference import plain_inference
from tests.cloud.jobs.sample import counts, inline, job, opened, put, rules, seen, until, url_in
from tests.cloud.serving.pools import running, tiny
from tests.tiny_bundle import sure_image

LIMITS = CallLimits()
IMAGES = np.stack([sure_image(n % 3) for n in range(7)])


def request(*, binary: bool, outputs: tuple[RequestedOutput, ...] = (), **more: object) -> Encoded:
    asked = InferRequest(
        (Tensor("image", IMAGES),), outputs, "mine", {"tier": "asynchronous", **more},  # type: ignore[dict-item]  # parameters
    )  # fmt: skip
    return encode_request(asked, binary=binary)


def claimed(sent: Encoded, **over: object) -> Claimed:
    header = None if sent.header_bytes is None else str(sent.header_bytes)
    made = Claimed(
        seq=1, owner="o", id=job(1).id, caller="key-1", model="tiny", version=None, body=sent.body,
        header_length=header, has_webhook=False, request_id="", traceparent="", row_bytes=0, attempts=0,
        expires_at=1e12, lease_until=1e12,
    )  # fmt: skip
    return replace(made, **over)  # type: ignore[arg-type]  # a table of keywords


class Noting:
    """The real core; notes how it was asked, and may spoil what it says."""

    def __init__(self, spoil: bool = False) -> None:
        self._inference: Inference = plain_inference()
        self._spoil = spoil
        self.priorities: list[Priority] = []

    async def answer(
        self, served: Served, rows: Rows, deadline: float, priority: Priority
    ) -> Answer:
        self.priorities.append(priority)
        answer = await self._inference.answer(served, rows, deadline, priority)
        if self._spoil:
            bad = np.full_like(answer.outputs.logits, np.nan)
            answer = Answer(Outputs(bad, bad), answer.source, answer.queue_s, answer.run_s)
        return answer


def with_pool(
    folder: Path, script: Callable[[ModelPool, Noting], Awaitable[None]], **how: bool
) -> None:
    async def main() -> None:
        async with running(tiny(folder)) as pool:
            await script(pool, Noting(**how))

    asyncio.run(main())


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
def test_the_answer_is_byte_for_byte_the_synchronous_one(tmp_path: Path, binary: bool) -> None:
    outputs = (RequestedOutput("logits", binary), RequestedOutput("label", binary))
    sent = request(binary=binary, outputs=outputs)

    async def script(pool: ModelPool, answers: Noting) -> None:
        got = await OipAnswering(pool.find, answers, LIMITS).answer(
            claimed(sent), time.monotonic() + 5
        )
        served = pool.find("tiny")
        header = None if sent.header_bytes is None else str(sent.header_bytes)
        call = read_call(sent.body, header, served.signature, LIMITS)
        answer = await plain_inference().answer(served, call.rows, time.monotonic() + 5)
        assert got == write_answer(
            call.asked, served.manifest, answer.outputs, served.version, "cloud"
        )
        assert (got.header_bytes is not None) == binary

    with_pool(tmp_path, script)


@pytest.mark.parametrize(
    ("given", "used"), [(0, Priority.NEAR_LINE), (1, Priority.NEAR_LINE), (3, Priority.BULK)]
)
def test_it_never_goes_before_who_waits(tmp_path: Path, given: int, used: Priority) -> None:
    async def script(pool: ModelPool, answers: Noting) -> None:
        sent = claimed(request(binary=True, priority=given))
        await OipAnswering(pool.find, answers, LIMITS).answer(sent, time.monotonic() + 5)
        assert answers.priorities == [used]

    with_pool(tmp_path, script)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    async def script(pool: ModelPool, answers: Noting) -> None:
        answering = OipAnswering(pool.find, answers, LIMITS)
        for body in (b"{}", b"", b"[" * 100_000):
            with pytest.raises(Refused) as refused:
                await answering.answer(claimed(Encoded(body, None)), time.monotonic() + 5)
            assert isinstance(refused.value, Malformed)
        with pytest.raises(Unknown):
            await answering.answer(claimed(request(binary=True), model="other"), 0.0)

    with_pool(tmp_path, script)


def test_numbers_that_json_cannot_carry_are_not_tried_again(tmp_path: Path) -> None:
    async def script(pool: ModelPool, answers: Noting) -> None:
        with pytest.raises(Refused, match="binary"):
            await OipAnswering(pool.find, answers, LIMITS).answer(
                claimed(request(binary=False)), time.monotonic() + 5
            )

    with_pool(tmp_path, script, spoil=True)


def test_many_jobs_from_disk_through_the_model(tmp_path: Path) -> None:
    sent = request(binary=True)
    header = str(sent.header_bytes)

    async def script(pool: ModelPool, answers: Noting) -> None:
        with opened(url_in(tmp_path)) as database:
            for n in range(1, 65):
                put(database, job(n, body=sent.body, header_length=header), time.time())
            found = counts()
            runner = JobRunner(
                inline(database), OipAnswering(pool.find, answers, LIMITS), rules(), found
            )
            work = asyncio.create_task(runner.run())
            await until(lambda: found.done._value.get() == 64)
            runner.drain()
            await work
            first = seen(database, 1).answer
            assert first is not None
            assert all(seen(database, n).answer == first for n in range(1, 65))

    with_pool(tmp_path, script)


def test_answers_and_failures_are_in_the_inference_log(tmp_path: Path) -> None:
    log = InferenceLog(InferenceLogSettings(share=1.0), tmp_path, CollectorRegistry())
    log.start()

    async def script(pool: ModelPool, answers: Noting) -> None:
        answering = OipAnswering(pool.find, answers, LIMITS, AnswerLog(log))
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        asked = claimed(
            request(binary=True), request_id="r-7", traceparent=f"00-{trace}-00f067aa0ba902b7-01"
        )
        await answering.answer(asked, time.monotonic() + 5)
        with pytest.raises(DeadlineMissed):
            await answering.answer(asked, time.monotonic() - 1)

    with_pool(tmp_path, script)
    log.close()
    answered, failed = (
        json.loads(line) for line in (tmp_path / "inference.log").read_text().splitlines()
    )
    assert (answered["request_id"], answered["caller"], answered["rows"]) == ("r-7", "key-1", 7)
    assert answered["trace_id"] == failed["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (answered["source"], answered["priority"]) == ("cloud", Priority.NEAR_LINE)
    assert answered["ms"]["model"] > 0
    assert (failed["request_id"], failed["error"]) == ("r-7", "DeadlineMissed")
