"""The whole ingest with a real model and a real database; only the link is in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud.experiments.experiments import Experiments
from cloud.experiments.settings import Experiment
from cloud.ingest.desk import Desk
from cloud.ingest.downlink import Downlink
from cloud.ingest.inbox import Inbox
from cloud.ingest.memory import AnswerMemory
from cloud.monitoring.metrics import Metrics
from cloud.serving.job import Outputs, Rows
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from cloud.store.feedback import Bounds, Feedback, FeedbackTable, Key, Written
from cloud.store.lookup import AnswerLookup
from cloud.store.writer import FeedbackWriter
from shared.errors import Refused, Unavailable
from shared.topics import escalations
from shared.wire.envelope import CloudAnswer, Payload, Refusal, pack_escalation
from shared.wire.pixels import Encoder
from tests.cloud.inference import plain_inference
from tests.cloud.ingest.fakes import FakeLink
from tests.cloud.samples import DEVICE, escalation
from tests.tiny_bundle import sure_image, write_tiny_bundle

IMAGE = Encoder("raw").encode(sure_image(1))


class GatedTable(FeedbackTable):
    """The real table; commits fail while `away`, rows are refused for ever while `never`."""

    away = never = False

    def write(self, rows: Sequence[Feedback]) -> Written:
        if self.away:
            raise Unavailable("away")
        if self.never:
            raise Refused("never")
        return super().write(rows)


class Bench:
    """Everything between the link and the database, as the service wires it."""

    def __init__(
        self,
        folder: Path,
        *,
        depth_max: int = 64,
        remembered_max: int = 100,
        experiments: Sequence[Experiment] = (),
    ) -> None:
        if not (folder / "bundle").exists():
            write_tiny_bundle(
                folder / "bundle", name="tiny-cloud", escalates=False, shift=1,
                answers_for=("tiny-edge",),
            )  # fmt: skip
            write_tiny_bundle(
                folder / "next", name="tiny-cloud", version="2.0.0", escalates=False, shift=2,
                answers_for=("tiny-edge",),
            )  # fmt: skip
        self.table = GatedTable(f"sqlite:///{folder / 'f.db'}", Bounds(10_000, 10**9))
        self.table.open()
        self.batches: list[int] = []
        versions = 2 if experiments else 1
        batching = Batching(size_max=min(32, depth_max), depth_max=depth_max)
        self.pool = ModelPool(
            [ModelSettings(bundle=folder / name) for name in ("bundle", "next")[:versions]], pool=PoolSettings(), batching=batching,
            cache_dir=folder, on_batch=lambda size, _s: self.batches.append(size),
        )  # fmt: skip
        self.metrics = Metrics()
        self.link = FakeLink()
        self.writer = FeedbackWriter(self.table, pending_max=1000)
        self.lookup = AnswerLookup(self.table)
        replies = Downlink()
        replies.through(self.link)
        memory = AnswerMemory(remembered_max)
        self.experiments = Experiments(experiments, self.pool.find)
        desk = Desk(
            self.pool,
            plain_inference(),
            memory,
            self.lookup,
            self.metrics,
            experiments=self.experiments,
        )
        self.inbox = Inbox(desk, replies, self.writer, self.metrics)

    @property
    def served(self) -> Served:
        return self.pool.find("tiny-cloud")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Drained at the end, as the service does it."""
        await self.pool.start()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.writer.run())
            yield
            await self.inbox.finish()
            await self.pool.close()
            self.writer.drain()

    def close(self) -> None:
        self.lookup.close()
        self.table.close()

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"hybridge_{name}_total", labels) or 0.0


def play(bench: Bench, scenario: Callable[[Bench], Awaitable[None]]) -> Bench:
    async def main() -> None:
        async with bench.running():
            await scenario(bench)

    asyncio.run(main())
    bench.close()
    return bench


async def settled(condition: Callable[[], bool]) -> None:
    """Let threads and the loop work until `condition` holds; the timeout is for broken code."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.to_thread(lambda: None)


def test_an_escalation_is_answered_stored_and_then_acknowledged(tmp_path: Path) -> None:
    e = escalation(payload=IMAGE)

    async def scenario(b: Bench) -> None:
        b.link.holds_pubacks = True
        b.inbox.take(b.link.delivery("first", e))
        await settled(lambda: bool(b.link.sent) and bool(b.table.find([(DEVICE, e.id)])))
        assert b.link.acked == []
        b.link.pubacks()
        await b.inbox.finish()
        assert b.link.acked == ["first"]

    b = play(Bench(tmp_path), scenario)
    ((topic, reply),) = b.link.sent
    assert topic == f"hy/v1/{DEVICE}/down/ans"
    assert isinstance(reply, CloudAnswer)
    assert (reply.id, reply.model, int(reply.probabilities.argmax())) == (e.id, "tiny-cloud", 2)
    assert b.count("answered") == 1


def test_the_answer_does_not_wait_for_the_store_and_the_acknowledgement_does(
    tmp_path: Path,
) -> None:
    async def scenario(b: Bench) -> None:
        b.table.away = True
        b.inbox.take(b.link.delivery("first", escalation(payload=IMAGE)))
        await settled(lambda: bool(b.link.sent) and not b.writer.up)
        assert b.link.acked == []
        b.table.away = False
        await b.inbox.finish()
        assert b.link.acked == ["first"]

    assert play(Bench(tmp_path), scenario).count("answered") == 1


def test_a_row_that_the_database_will_never_take_does_not_come_back(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        b.table.never = True
        b.inbox.take(b.link.delivery("first", escalation(payload=IMAGE)))

    b = play(Bench(tmp_path), scenario)
    assert b.link.acked == ["first"]
    assert b.count("store_rejected") == 1


def test_copies_in_hand_at_once_share_one_run_and_each_gets_its_reply(tmp_path: Path) -> None:
    e = escalation(payload=IMAGE)

    async def scenario(b: Bench) -> None:
        for name in ("first", "copy"):
            b.inbox.take(b.link.delivery(name, e))

    b = play(Bench(tmp_path), scenario)
    assert b.batches == [1]
    assert sorted(b.link.acked) == ["copy", "first"]
    first, copy = b.link.replies()
    assert isinstance(first, CloudAnswer)
    assert isinstance(copy, CloudAnswer)
    assert np.array_equal(first.probabilities, copy.probabilities)
    assert b.count("duplicates") == 1


def test_a_copy_is_not_acknowledged_before_the_row_is_stored_either(tmp_path: Path) -> None:
    e = escalation(payload=IMAGE)

    async def scenario(b: Bench) -> None:
        b.table.away = True
        for name in ("first", "copy"):
            b.inbox.take(b.link.delivery(name, e))
        await settled(lambda: len(b.link.sent) == 2 and not b.writer.up)
        assert b.link.acked == []
        b.table.away = False

    assert sorted(play(Bench(tmp_path), scenario).link.acked) == ["copy", "first"]


def no_query(_keys: object) -> dict[Key, CloudAnswer]:
    raise AssertionError("asked the database")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_sample_that_comes_again_gets_the_same_answer_without_a_run(
    tmp_path: Path, *, restarted: bool
) -> None:
    e = escalation(payload=IMAGE)

    async def once(b: Bench) -> None:
        b.inbox.take(b.link.delivery("first", e))

    async def twice(b: Bench) -> None:
        await once(b)
        await b.inbox.finish()
        b.table.find = no_query  # type: ignore[method-assign, assignment]  # memory must do
        await once(b)

    if restarted:
        replies = play(Bench(tmp_path), once).link.replies()
        b = play(Bench(tmp_path), once)
        assert b.batches == []
        replies += b.link.replies()
    else:
        b = play(Bench(tmp_path), twice)
        assert b.batches == [1]
        replies = b.link.replies()
    first, again = replies
    assert isinstance(first, CloudAnswer)
    assert isinstance(again, CloudAnswer)
    assert np.array_equal(first.probabilities, again.probabilities)
    assert replace(first, probabilities=again.probabilities) == again
    assert b.count("duplicates") == 1
    assert b.link.acked[-1] == "first"


def test_a_crash_between_publishing_and_storing_only_answers_twice(tmp_path: Path) -> None:
    e = escalation(payload=IMAGE)
    crashed = Bench(tmp_path)

    async def until_published() -> None:
        crashed.table.away = True
        await crashed.pool.start()
        async with asyncio.timeout(10):
            crashed.inbox.take(crashed.link.delivery("first", e))
            await settled(lambda: bool(crashed.link.sent))
        # and with the loop everything in hand ends, as with a kill

    asyncio.run(until_published())
    crashed.close()
    assert crashed.link.acked == []

    async def again(b: Bench) -> None:
        b.inbox.take(b.link.delivery("redelivered", e))

    b = play(Bench(tmp_path), again)
    assert b.link.acked == ["redelivered"]
    first, second = crashed.link.replies()[0], b.link.replies()[0]
    assert isinstance(first, CloudAnswer)
    assert isinstance(second, CloudAnswer)
    assert np.array_equal(first.probabilities, second.probabilities)


def test_a_lost_link_leaves_the_delivery_with_the_broker_but_keeps_the_row(
    tmp_path: Path,
) -> None:
    e = escalation(payload=IMAGE)

    async def scenario(b: Bench) -> None:
        b.link.holds_pubacks = True
        b.inbox.take(b.link.delivery("first", e))
        await settled(lambda: bool(b.link.sent))
        b.link.go_down()
        await b.inbox.finish()
        assert b.link.acked == []
        assert b.table.find([(DEVICE, e.id)])
        b.link.up, b.link.holds_pubacks = True, False
        b.inbox.take(b.link.delivery("redelivered", e))

    b = play(Bench(tmp_path), scenario)
    assert b.link.acked == ["redelivered"]
    assert b.batches == [1]
    assert b.count("unacknowledged") == 1


def test_a_device_that_nobody_hears_is_counted_and_asks_again_later(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        b.link.code = 0x10
        b.inbox.take(b.link.delivery("first", escalation(payload=IMAGE)))

    b = play(Bench(tmp_path), scenario)
    assert (b.count("undelivered"), b.link.acked) == (1, ["first"])


REFUSED = {
    "unknown model": ({"model": "other"}, "unknown_model", True),
    "wrong shape": ({"payload": Payload("raw", "uint8", (5, 5), bytes(25))}, "malformed", False),
    "wrong dtype": ({"payload": Payload("raw", "float32", (4, 4), bytes(64))}, "malformed", False),
    "too few bytes": ({"payload": Payload("raw", "uint8", (4, 4), bytes(15))}, "malformed", False),
    "corrupt": ({"payload": Payload("zstd", "uint8", (4, 4), b"no zstd")}, "malformed", False),
    "codec": ({"payload": Payload("jpeg", "uint8", (4, 4), b"")}, "malformed", False),
    "dictionary": (
        {"payload": Payload("grey4", "uint8", (4, 4), b"x", "0123456789abcdef")},
        "unknown_dictionary", True,
    ),
    "no time left": ({"budget_ms": 0, "payload": IMAGE}, "too_late", False),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused_counted_and_acknowledged(
    tmp_path: Path, case: str
) -> None:
    fields, code, again = REFUSED[case]

    async def scenario(b: Bench) -> None:
        b.inbox.take(b.link.delivery("bad", escalation(**fields)))  # type: ignore[arg-type]  # a table of keywords
        b.inbox.take(b.link.delivery("good", escalation(payload=IMAGE)))

    b = play(Bench(tmp_path), scenario)
    refusals = [reply for reply in b.link.replies() if isinstance(reply, Refusal)]
    assert [(r.code, r.retry_after_ms is not None) for r in refusals] == [(code, again)]
    assert sorted(b.link.acked) == ["bad", "good"]
    assert b.count("refused", code=code) == 1
    assert b.count("answered") == 1
    assert b.count("failures") == 0


def test_what_is_no_escalation_is_logged_once_counted_and_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = escalations(DEVICE)
    broken = pack_escalation(replace(escalation(), captured_at=float("nan")))

    async def scenario(b: Bench) -> None:
        for n in range(3):
            b.inbox.take(b.link.raw(f"text {n}", topic, b"hello"))
        b.inbox.take(b.link.raw("elsewhere", "other/topic", b""))
        b.inbox.take(b.link.raw("with an id", topic, broken))

    b = play(Bench(tmp_path), scenario)
    assert len(b.link.acked) == 5
    assert (b.count("malformed", kind="envelope"), b.count("malformed", kind="topic")) == (4, 1)
    (refusal,) = b.link.replies()
    assert isinstance(refusal, Refusal)
    assert refusal.code == "malformed"
    logged = [r for r in caplog.records if r.getMessage() == "delivery_refused"]
    assert len(logged) == 2


def test_overload_is_a_prompt_refusal_that_says_when_to_come_again(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        for n in range(10):
            b.inbox.take(b.link.delivery(str(n), escalation(payload=IMAGE)))

    b = play(Bench(tmp_path, depth_max=4), scenario)
    refusals = [reply for reply in b.link.replies() if isinstance(reply, Refusal)]
    assert [r.code for r in refusals] == ["overloaded"] * 6
    assert all(r.retry_after_ms is not None and r.retry_after_ms >= 50 for r in refusals)
    assert len(b.link.acked) == 10
    assert b.count("answered") == 4


def test_a_fault_of_ours_is_a_refusal_to_come_again_and_the_rest_goes_on(tmp_path: Path) -> None:
    b = Bench(tmp_path)

    async def scenario(b: Bench) -> None:
        whole = b.served.batcher._predict

        def faulty(rows: Sequence[Rows]) -> Outputs:
            if any(each.max() == 0 for each in rows):
                raise ZeroDivisionError
            return whole(rows)

        b.served.batcher._predict = faulty
        b.inbox.take(b.link.delivery("bad", escalation()))
        b.inbox.take(b.link.delivery("good", escalation(payload=IMAGE)))

    play(b, scenario)
    assert (b.count("failures"), b.count("answered")) == (1, 1)
    (refusal,) = [reply for reply in b.link.replies() if isinstance(reply, Refusal)]
    assert (refusal.code, refusal.retry_after_ms) == ("overloaded", 5000)
    assert sorted(b.link.acked) == ["bad", "good"]


def test_an_answer_that_is_not_finite_is_no_answer(tmp_path: Path) -> None:
    b = Bench(tmp_path)

    def overflowing(rows: Sequence[Rows]) -> Outputs:
        nothing = np.full((len(rows), 3), np.nan, np.float32)
        return Outputs(nothing, nothing)

    async def scenario(b: Bench) -> None:
        b.served.batcher._predict = overflowing
        b.inbox.take(b.link.delivery("bad", escalation(payload=IMAGE)))

    play(b, scenario)
    (refusal,) = b.link.replies()
    assert isinstance(refusal, Refusal)
    assert refusal.code == "malformed"
    assert b.link.acked == ["bad"]


def test_once_closed_deliveries_stay_for_another_worker(tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        b.inbox.take(b.link.delivery("accepted", escalation(payload=IMAGE)))
        b.inbox.close()
        b.inbox.take(b.link.delivery("late", escalation(payload=IMAGE)))

    assert play(Bench(tmp_path), scenario).link.acked == ["accepted"]


def test_while_the_store_cannot_be_read_samples_are_answered_afresh(tmp_path: Path) -> None:
    e = escalation(payload=IMAGE)

    async def once(b: Bench) -> None:
        b.inbox.take(b.link.delivery("first", e))

    play(Bench(tmp_path), once)
    blind = Bench(tmp_path)

    def away(_keys: object) -> dict[object, CloudAnswer]:
        raise Unavailable("away")

    blind.table.find = away  # type: ignore[method-assign, assignment]  # the fault under test
    assert play(blind, once).batches == [1]
    assert blind.link.acked == ["first"]
