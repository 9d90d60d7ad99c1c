"""The learning process's client against a server whose answers are prepared."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from cloud.feedback.documents import Deletion, SampleQuery
from cloud.learning.client.client import LearningClient
from cloud.learning.client.settings import LearningClientSettings
from cloud.learning.documents import Decision
from cloud.training.documents import Artifact
from shared.errors import Conflict, Malformed, NotTrusted, TooLarge, Unavailable, Unknown
from tests.cloud.cli.learning_views import cycle, job, sample
from tests.cloud.registry.client.scripted_server import CUT, ok, problem, response, scripted

QUICK = LearningClientSettings(
    patience_s=5.0, pause_s_min=0.001, pause_s_max=0.002, silence_s_max=5.0, page=2, rows_max=4
)


def run(work: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(work())


def samples(*numbers: int, following: str | None = None) -> bytes:
    found = [sample(number).model_dump(mode="json") for number in numbers]
    return ok({"samples": found, "next": following})


def test_a_job_that_is_sent_again_over_a_lost_line_is_the_same_job() -> None:
    async def work() -> None:
        made = response(201, job("one").model_dump_json().encode())
        async with scripted(CUT, made) as server, LearningClient([server.url], "k", QUICK) as asked:
            assert (await asked.jobs.submit(job("one").spec, "once-1")).id == "one"
        assert [headers["idempotency-key"] for _, _, headers in server.asked] == ["once-1"] * 2

    run(work)


def test_samples_come_page_by_page_and_pages_that_go_round_end() -> None:
    async def work() -> None:
        pages = (samples(1, 2, following="x"), samples(3, following="x"))
        async with scripted(*pages) as server, LearningClient([server.url], None, QUICK) as asked:
            query = SampleQuery(disputed=True, unsure=0.6)
            assert len(await asked.feedback.samples(query)) == 3
        assert [path for _, path, _ in server.asked] == [
            "/v1/feedback/samples?unsure=0.6&disputed=true&limit=2",
            "/v1/feedback/samples?unsure=0.6&disputed=true&after=x&limit=2",
        ]

    run(work)


def test_a_list_without_end_is_refused() -> None:
    async def work() -> None:
        pages = [samples(1, 2, following=str(number)) for number in range(4)]
        async with scripted(*pages) as server, LearningClient([server.url], None, QUICK) as asked:
            with pytest.raises(TooLarge, match="over 4 samples"):
                await asked.feedback.samples(SampleQuery())

    run(work)


def test_no_more_samples_are_asked_for_than_are_wanted() -> None:
    async def work() -> None:
        page = samples(1, following="x")
        async with scripted(page) as server, LearningClient([server.url], None, QUICK) as asked:
            assert len(await asked.feedback.samples(SampleQuery(), at_most=1)) == 1
        assert [path for _, path, _ in server.asked] == ["/v1/feedback/samples?limit=1"]

    run(work)


def test_a_deletion_whose_line_is_lost_is_not_done_twice() -> None:
    async def work() -> None:
        async with scripted(CUT) as server, LearningClient([server.url], None, QUICK) as asked:
            with pytest.raises(Unavailable, match="may have been done"):
                await asked.feedback.delete(Deletion(device="cam-1", comment="x"))
        assert len(server.asked) == 1

    run(work)


def test_a_persons_word_is_on_what_was_seen() -> None:
    async def work() -> None:
        refused = problem(Conflict("somebody was first"))
        async with scripted(refused) as server, LearningClient([server.url], None, QUICK) as asked:
            with pytest.raises(Conflict, match="somebody was first"):
                await asked.loops.decide("m-1", Decision(verb="go"), 4)
        ((method, path, headers),) = server.asked
        assert (method, path, headers["if-match"]) == ("POST", "/v1/cycles/m-1/decide", '"4"')

    run(work)


def test_a_watch_waits_for_another_revision() -> None:
    async def work() -> None:
        body = ok(cycle(revision=3).model_dump(mode="json"))
        async with scripted(body) as server, LearningClient([server.url], None, QUICK) as asked:
            assert (await asked.loops.changed("m-1", None)).revision == 3
            await asked.loops.changed("m-1", 3)
        assert [path for _, path, _ in server.asked] == [
            "/v1/cycles/m-1", "/v1/cycles/m-1?revision=3&wait_s=10.0",
        ]  # fmt: skip

    run(work)


def test_points_and_cycles_that_go_round_end() -> None:
    async def work() -> None:
        point = {"metric": "loss", "step": 0, "value": 1.0, "at": 0.0}
        page = ok({"points": [point, point | {"step": 1}]})
        async with scripted(page) as server, LearningClient([server.url], None, QUICK) as asked:
            assert [one.step for one in await asked.jobs.points("a", "loss")] == [0, 1]
        again = ok({"cycles": [cycle(id=name).model_dump(mode="json") for name in ("b", "a")]})
        async with scripted(again) as server, LearningClient([server.url], None, QUICK) as asked:
            assert [one.id for one in await asked.loops.cycles("m")] == ["b", "a"]

    run(work)


def test_a_name_is_one_segment_of_a_path_whatever_it_holds() -> None:
    async def work() -> None:
        missing = problem(Unknown("no such job"))
        async with scripted(missing) as server, LearningClient([server.url], None, QUICK) as asked:
            with pytest.raises(Unknown, match="no such job"):
                await asked.jobs.get("../../quotas?x")
        assert server.asked[0][1] == "/v1/jobs/..%2F..%2Fquotas%3Fx"

    run(work)


def test_an_answer_of_another_program_is_refused_in_words() -> None:
    async def work() -> None:
        for body in (ok({"loops": 3}), ok([]), response(200, b"<html>")):
            async with scripted(body) as server, LearningClient([server.url], None, QUICK) as asked:
                with pytest.raises(Malformed):
                    await asked.loops.all()

    run(work)


def beside(path: Path) -> list[Path]:
    return list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (response(200, b"other"), NotTrusted, "another hash"),
        (response(200, b"x" * 101), TooLarge, "over 100 bytes"),
        (b"HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\nhal", Unavailable, "lost while it gave"),
        (problem(Unknown("no such artifact")), Unknown, "no such artifact"),
    ],
)
def test_a_file_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, answer: bytes, error: type[Exception], words: str
) -> None:
    async def work() -> None:
        few = QUICK.model_copy(update={"file_bytes_max": 100, "silence_s_max": 0.5})
        wanted = Artifact(name="b.hyb", sha256=hashlib.sha256(b"bundle").hexdigest(), bytes=6)
        target = tmp_path / "b.hyb"
        async with scripted(answer) as server, LearningClient([server.url], "k", few) as asked:
            with pytest.raises(error, match=words):
                await asked.jobs.fetch("one", wanted, target, lambda _: None)
        assert not beside(target)
        good = response(200, b"bundle")
        moved: list[int] = []
        async with scripted(good) as server, LearningClient([server.url], "k", few) as asked:
            assert await asked.jobs.fetch("one", wanted, target, moved.append) == 6
        assert (target.read_bytes(), sum(moved)) == (b"bundle", 6)
        assert server.asked[0][2]["x-api-key"] == "k"

    run(work)
