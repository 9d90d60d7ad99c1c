"""A whole agent with a real model, a real journal and a real broker; only the cloud stands in."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloud.broker.launch import BrokerAddress
from edge.agent import Agent
from edge.answers import Cursor
from edge.inference.slot import Slot, open_slot
from edge.journal.writes import Opened
from shared import topics
from shared.errors import DeadlineMissed, Malformed, Overloaded, Unavailable, Unknown
from shared.new_ids import new_sample_id
from shared.wire.envelope import MESSAGE_BYTES_MAX, CloudAnswer, Downlink, Escalation
from tests.brokers import Client, running_broker
from tests.edge.samples import pending
from tests.edge.stand_in_cloud import a_sample, agent, cloud, config, refuses, says, until
from tests.tiny_bundle import sure_image, unsure_image, write_tiny_bundle


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def state(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Named after the test, since it names the device too."""
    write_tiny_bundle(tmp_path / "bundle")
    name: str = request.node.name
    return tmp_path / name.removeprefix("test_").split("[")[0][:60]


def journal_counts(it: Agent) -> dict[str, int]:
    return it._journal.counts()


def test_a_confident_answer_is_final_at_once(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None)) as it:
            sample = a_sample(sure_image(1), "7")
            answer = await it.answer(sample)
            assert (answer.label, answer.source, answer.route, answer.final) == (
                1, "edge", "accepted", True,
            )  # fmt: skip
            assert (answer.origin, answer.position, answer.edge_label) == ("test", "7", 1)
            assert await it.final(sample.id, 0.0) == it.find(sample.id) == answer

    asyncio.run(scenario())


def test_an_escalation_is_on_disk_before_it_is_promised_and_gets_its_answer(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        release = asyncio.Event()
        async with agent(config(state, broker)) as it, cloud(broker, lambda _: []) as worker:
            stream = it.corrections()
            sample = a_sample(unsure_image(), "8")
            first = await it.answer(sample)
            assert (first.final, first.source, first.route) == (False, "edge", "escalated")
            assert it._journal._opening == {}
            with pytest.raises(DeadlineMissed):
                await it.final(sample.id, 0.01)
            worker.reply = lambda e: [says(e, 2)]
            release.set()
            final = await it.final(sample.id, 5.0)  # the answer timeout sends it again
            assert (final.label, final.source, final.final) == (2, "cloud", True)
            assert final.edge_label == first.label
            assert final.uplink_bytes > 0
            assert final.first_latency_ms == first.latency_ms < final.latency_ms
            assert await stream.next() == final
            await it.durable()
            assert it.outbox_depth == (0, 0)
            assert journal_counts(it) == {"answered": 1, "recorded": 1}
            (e, *_) = worker.got
            assert (e.id, e.model, e.reason) == (sample.id, "tiny-edge", "escalated")
            assert 0 < e.budget_ms <= 1000
            assert e.edge_confidence == pytest.approx(1 / 3, abs=0.01)

    asyncio.run(scenario())


def test_what_waits_survives_a_restart_without_a_broker(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        sample = a_sample(unsure_image(), "9")
        async with agent(config(state, None)) as it:
            first = await it.answer(sample)
        async with agent(config(state, broker)) as it, cloud(broker) as worker:
            assert it.outbox_depth[0] == 1
            assert it.find(sample.id) == first
            final = await it.final(sample.id, 5.0)
            assert (final.label, final.source, final.position) == (2, "cloud", "9")
            assert worker.got[0].budget_ms > 1000  # no hurry any more, but a day is left

    asyncio.run(scenario())


def test_a_row_that_the_disk_has_spoilt_goes_to_the_ledger_and_holds_up_nobody(
    state: Path, broker: BrokerAddress, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        samples = [a_sample(unsure_image(), str(n)) for n in range(4)]
        async with agent(config(state, None)) as it:
            for sample in samples:
                await it.answer(sample)
        with sqlite3.connect(state / "state.db") as db:
            db.execute("UPDATE outbox SET escalation = x'c1' WHERE position IN ('1', '3')")
        async with agent(config(state, broker)) as it, cloud(broker):
            finals = [await it.final(sample.id, 5.0) for sample in samples]
            assert [f.given_up for f in finals] == ["", "damaged", "", "damaged"]
            assert [f.label for f in finals] == [2, -1, 2, -1]
            await it.durable()
            assert it.ledger_counts() == {"damaged": 2}
            assert it.counters()["outbox_row_damaged"] == 2
            assert it.outbox_depth == (0, 0)

    asyncio.run(scenario())
    assert [r.message for r in caplog.records].count("outbox_row_damaged") == 1


def test_a_sample_that_no_message_holds_is_given_up_after_a_restart_too(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        sample = pending(size=MESSAGE_BYTES_MAX)
        async with agent(config(state, None)) as it:
            it._journal.record(Opened(sample))
        async with agent(config(state, broker)) as it:
            final = await it.final(sample.id, 5.0)
            assert (final.given_up, final.label) == ("too_large", 1)

    asyncio.run(scenario())


def test_nobody_serves_at_first(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        async with agent(config(state, broker)) as it:
            await until(lambda: it.link_up)
            answers = [await it.answer(a_sample(unsure_image())) for _ in range(5)]
            async with cloud(broker):
                finals = [await it.final(answer.id, 5.0) for answer in answers]
            assert all(final.source == "cloud" for final in finals)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "counted"),
    [("malformed", "refused_malformed"), ("from the future\n" * 99, "refused_other")],
)
def test_a_final_refusal_keeps_the_edges_answer_and_a_line_in_the_ledger(
    state: Path, broker: BrokerAddress, code: str, counted: str
) -> None:
    async def scenario() -> None:
        def refusal(e: Escalation) -> list[Downlink | bytes]:
            return [refuses(e, code)]  # type: ignore[arg-type]  # newer codes pass

        async with agent(config(state, broker)) as it, cloud(broker, refusal):
            await until(lambda: it.link_up)
            sample = a_sample(unsure_image())
            first = await it.answer(sample)
            final = await it.final(sample.id, 5.0)
            assert (final.label, final.source, final.final) == (first.label, "edge", True)
            assert final.given_up == counted
            await it.durable()
            assert it.ledger_counts() == {counted: 1}
            assert it.outbox_depth == (0, 0)

    asyncio.run(scenario())


def test_a_refusal_for_now_and_one_for_haste_are_sent_again(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        def moody(e: Escalation) -> list[Downlink | bytes]:
            match len(worker.got):
                case 1:
                    return [refuses(e, "too_late")]
                case 2:
                    return [refuses(e, "overloaded", retry_after_ms=5)]
                case _:
                    return [says(e)]

        async with agent(config(state, broker)) as it, cloud(broker, moody) as worker:
            await until(lambda: it.link_up)
            sample = a_sample(unsure_image())
            await it.answer(sample)
            assert (await it.final(sample.id, 5.0)).source == "cloud"
            budgets = [e.budget_ms for e in worker.got]
            assert budgets[0] <= 1000 < min(budgets[1:])
            assert it.ledger_counts() == {}

    asyncio.run(scenario())


def test_too_late_without_haste_is_final(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        def late(e: Escalation) -> list[Downlink | bytes]:
            return [refuses(e, "too_late")]

        async with agent(config(state, broker)) as it, cloud(broker, late) as worker:
            await until(lambda: it.link_up)
            sample = a_sample(unsure_image())
            await it.answer(sample)
            assert (await it.final(sample.id, 5.0)).given_up == "refused_too_late"
            assert len(worker.got) == 2

    asyncio.run(scenario())


def test_what_is_not_ours_is_counted_and_disturbs_nothing(
    state: Path, broker: BrokerAddress, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        def noisy(e: Escalation) -> list[Downlink | bytes]:
            stranger = CloudAnswer(new_sample_id(), "m", "1", np.eye(3, dtype=np.float32)[0], 0, 0)
            few = CloudAnswer(e.id, "m", "1", np.eye(2, dtype=np.float32)[0], 0, 0)
            return [b"", b"\xff" * 50, b"{}", stranger, stranger, few, says(e), says(e)]

        async with agent(config(state, broker)) as it, cloud(broker, noisy):
            await until(lambda: it.link_up)
            for _ in range(2):
                sample = a_sample(unsure_image())
                await it.answer(sample)
                assert (await it.final(sample.id, 5.0)).label == 2
            await until(lambda: it.counters().get("stray_answer", 0) == 6)
            assert it.counters()["malformed_downlink"] == 8
            await it.durable()
            assert journal_counts(it) == {"answered": 2, "recorded": 2}

    asyncio.run(scenario())
    lines = [record.message for record in caplog.records]
    assert lines.count("stray_answer") == lines.count("malformed_downlink") == 1


def test_a_full_outbox_gives_up_the_most_confident(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None, outbox={"bytes_max": 1000})) as it:
            answers = [await it.answer(a_sample(unsure_image())) for _ in range(5)]
            assert it.outbox_depth[0] == 3
            kept = [it.find(answer.id) for answer in answers]
            assert sum(a is not None and a.given_up == "outbox_full" for a in kept) == 2
            await it.durable()
            assert it.ledger_counts() == {"outbox_full": 2}
            assert len(it._journal.outbox()) == 3

    asyncio.run(scenario())


def test_what_nobody_answers_expires(state: Path) -> None:
    async def scenario() -> None:
        brief = {"fast_ms": 1, "full_ms": 10, "asynchronous_s": 0.05}
        async with agent(config(state, None, deadlines=brief)) as it:
            sample = a_sample(unsure_image())
            await it.answer(sample)
            assert (await it.final(sample.id, 5.0)).given_up == "expired"
            await it.durable()
            assert it.ledger_counts() == {"expired": 1}

    asyncio.run(scenario())


def test_a_full_disk_answers_with_the_edge_and_counts(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        async with agent(config(state, broker)) as it, cloud(broker, lambda _: []):
            await until(lambda: it.link_up)
            it._journal._db.execute("PRAGMA max_page_count = 1")
            answers = [await it.answer(a_sample(unsure_image())) for _ in range(200)]
            full = [answer for answer in answers if answer.given_up == "disk_full"]
            assert full
            assert all(answer.final and answer.source == "edge" for answer in full)
            assert it.outbox_depth[0] == 200 - len(full)
            it._journal._db.execute("PRAGMA max_page_count = 100000")
            await it.durable()
            await it.durable()
            assert it.ledger_counts() == {"disk_full": len(full)}

    asyncio.run(scenario())


def test_a_chunk_is_recorded_with_its_cursor(state: Path) -> None:
    async def scenario() -> None:
        images = [sure_image(0), unsure_image(), sure_image(2)]
        async with agent(config(state, None)) as it:
            assert it.cursor("s") is None
            answers = await it.take([a_sample(image) for image in images], Cursor("s", "3"))
            assert [answer.final for answer in answers] == [True, False, True]
            await it.durable()
            with pytest.raises(Malformed):
                await it.take([a_sample(sure_image(0)), a_sample(images[0][:2])], Cursor("s", "5"))
        async with agent(config(state, None)) as it:
            assert it.cursor("s") == "3"
            assert journal_counts(it) == {"answered": 2, "recorded": 3}

    asyncio.run(scenario())


def test_audits_are_sent_whatever_their_confidence(state: Path, broker: BrokerAddress) -> None:
    async def scenario() -> None:
        everything = config(state, broker, routing={"audit_share": 1.0})
        async with agent(everything) as it, cloud(broker) as worker:
            await until(lambda: it.link_up)
            sample = a_sample(sure_image(0))
            assert (await it.answer(sample)).route == "audit"
            assert (await it.final(sample.id, 5.0)).label == 2
            assert worker.got[0].reason == "audit"

    asyncio.run(scenario())


def test_without_an_uplink_every_answer_is_final(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None, uplink=None)) as it:
            answer = await it.answer(a_sample(unsure_image()))
            assert (answer.final, answer.route) == (True, "accepted")
            assert not it.link_up

    asyncio.run(scenario())


def test_a_tensor_that_is_not_the_models_is_refused_in_words(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None)) as it:
            with pytest.raises(Malformed, match=r"got uint8\[1, 2, 4\]; expected uint8\[N, 4, 4\]"):
                await it.answer(a_sample(sure_image(0)[:2]))
            with pytest.raises(Malformed, match="float32"):
                await it.answer(a_sample(sure_image(0).astype(np.float32)))
            with pytest.raises(Unknown):
                await it.final(new_sample_id(), 1.0)
            it.drain()
            with pytest.raises(Unavailable, match="shutting down"):
                await it.answer(a_sample(sure_image(0)))
            assert journal_counts(it) == {}

    asyncio.run(scenario())


def test_a_slow_model_runs_in_a_thread_and_answers_the_same(state: Path) -> None:
    async def scenario() -> None:
        settings = config(state, None)
        quick = open_slot(settings.bundle, "auto", state)
        slow = Slot(quick.bundle, _Session(quick), quick.key, latency_ms=5.0)
        assert not slow.inline
        async with agent(settings, slow) as it:
            images = [sure_image(label) for label in (0, 1, 2)]
            taken = await it.take([a_sample(image) for image in images])
            asked = [await it.answer(a_sample(image)) for image in images]
            assert [a.label for a in taken] == [a.label for a in asked] == [0, 1, 2]

    asyncio.run(scenario())


class _Session:
    """An open session, again."""

    def __init__(self, slot: Slot) -> None:
        self.run, self.close = slot._run, slot._close
        self.inputs = self.outputs = ()


def test_a_model_that_breaks_down_over_an_input_asks_the_cloud(
    state: Path, broker: BrokerAddress
) -> None:
    class Broken(_Session):
        def __init__(self, slot: Slot) -> None:
            super().__init__(slot)
            self.run = lambda batch: np.full((len(batch), 3), np.nan, np.float32)

    async def scenario() -> None:
        settings = config(state, broker)
        whole = open_slot(settings.bundle, "auto", state)
        slot = Slot(whole.bundle, Broken(whole), whole.key, 0.1)
        async with agent(settings, slot) as it, cloud(broker) as worker:
            await until(lambda: it.link_up)
            sample = a_sample(sure_image(0))
            await it.answer(sample)
            assert (await it.final(sample.id, 5.0)).source == "cloud"
            assert worker.got[0].edge_confidence == 0.0
            assert it.counters()["confidence_not_a_number"] == 1

    asyncio.run(scenario())


def test_a_sample_that_no_message_holds_keeps_the_edges_answer(
    state: Path, broker: BrokerAddress
) -> None:
    async def scenario() -> None:
        async with agent(config(state, broker)) as it:
            await until(lambda: it.link_up)
            big = pending(size=MESSAGE_BYTES_MAX)
            assert it.uplink is not None
            it._journal.record(Opened(big))
            it.uplink.submit(big)
            answer = it.find(big.id)
            assert answer is not None
            assert (answer.given_up, answer.source) == ("too_large", "edge")
            await it.durable()
            assert it.ledger_counts() == {"too_large": 1}

    asyncio.run(scenario())


def test_a_disk_that_is_behind_refuses_requests_and_makes_sources_wait(state: Path) -> None:
    async def scenario() -> None:
        async with agent(config(state, None)) as it:
            it._journal._queued_max = 4
            for _ in range(4):
                await it.answer(a_sample(sure_image(0)))
            with pytest.raises(Overloaded, match="the disk is behind"):
                await it.answer(a_sample(sure_image(0)))
            await it.take([a_sample(sure_image(0))])  # waits, then goes on
            assert it._journal._queued == 1

    asyncio.run(scenario())


def test_its_presence_is_retained(state: Path, broker: BrokerAddress) -> None:
    settings = config(state, broker)
    topic = topics.state(settings.device_id)  # type: ignore[arg-type]  # a device id

    async def scenario() -> None:
        async with agent(settings) as it:
            await until(lambda: it.link_up)
            online = await asyncio.to_thread(_retained, broker, topic)
            assert online == {"online": True, "model": "tiny-edge", "model_version": "1.0.0"}

    asyncio.run(scenario())
    assert _retained(broker, topic)["online"] is False


def _retained(broker: BrokerAddress, topic: str) -> dict[str, object]:
    with Client(broker, "watcher") as watcher:
        watcher.subscribe(topic)
        while True:
            state: dict[str, object] = json.loads(watcher.next().payload)
            return state
