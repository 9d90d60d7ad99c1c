"""Near-line windows through a real pool, batcher and inference core."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cloud.batch.counts import NearLineCounts
from cloud.batch.journal import Journal
from cloud.batch.locate import locate
from cloud.batch.near_line import NearLine
from cloud.batch.online_model import OnlineModel
from cloud.batch.settings import NearLineJob
from cloud.serving.inference import Answer
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served
from shared.errors import Overloaded
from tests.cloud.batch.images import lines, noise, npy, png, write_inputs
from tests.cloud.batch.serving import Serving, serving, until
from tests.tiny_bundle import sure_image

T0 = 1_800_000_000.0


def job(folder: Path, **more: Any) -> NearLineJob:
    return NearLineJob.model_validate({
        "name": "belt", "folder": folder / "in", "out": folder / "out", "model": "tiny-cloud",
        "batch_rows": 4, "part_rows": 10, **more,
    })  # fmt: skip


def near_line(at: Serving, settings: NearLineJob, **more: Any) -> NearLine:
    ask = more.pop("ask", at.inference.answer)
    return NearLine(
        settings, lambda: locate(str(settings.folder)), at.pool.find, ask,
        NearLineCounts(at.registry), **more,
    )  # fmt: skip


def go(folder: Path, scenario: Callable[[Serving], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with serving(folder) as at:
            await scenario(at)

    asyncio.run(main())


def test_a_window_answers_all_and_the_next_only_what_is_new(tmp_path: Path) -> None:
    rows = write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        one = near_line(at, job(tmp_path))
        assert await one._window(T0) == "complete"
        said = {(line["name"], line["row"]) for line in lines(tmp_path / "out")}
        assert said == {(name, row) for name in rows for row in range(rows[name])}
        assert await one._window(T0 + 900) == "empty"
        (tmp_path / "in" / "late.png").write_bytes(png(sure_image(0)))
        assert await one._window(T0 + 1800) == "complete"
        assert lines(tmp_path / "out")[-1]["name"] == "late.png"
        assert lines(tmp_path / "out")[-1]["label"] == "class-1"
        assert at.count("rows_total", job="belt") == 98
        assert at.count("inputs_total", job="belt", result="failed") == 2

    go(tmp_path, scenario)


def test_each_window_says_what_it_did_and_what_was_bad(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        one = near_line(at, job(tmp_path))
        await one._window(T0)
        (tmp_path / "in" / "late.npy").write_bytes(npy(noise(12)))
        await one._window(T0 + 900)

    go(tmp_path, scenario)
    first = json.loads((tmp_path / "out/window-20270115T080000Z.json").read_text())
    second = json.loads((tmp_path / "out/window-20270115T081500Z.json").read_text())
    assert (first["rows"], first["inputs"], first["failed"], first["late"]) == (97, 8, 2, 0)
    assert (second["rows"], second["inputs"], second["failed"], second["late"]) == (12, 1, 0, 0)
    assert not {p["file"] for p in first["parts"]} & {p["file"] for p in second["parts"]}
    errors = (tmp_path / "out/window-20270115T080000Z.errors.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in errors] == ["bad.png", "g.txt"]
    assert not (tmp_path / "out/window-20270115T081500Z.errors.jsonl").exists()


def test_an_input_that_changed_is_answered_again(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        one = near_line(at, job(tmp_path))
        await one._window(T0)
        (tmp_path / "in" / "b.npy").write_bytes(npy(noise(2)))
        await one._window(T0 + 900)
        assert [line["row"] for line in lines(tmp_path / "out")[-2:]] == [0, 1]
        assert at.count("rows_total", job="belt") == 99

    go(tmp_path, scenario)


def test_what_is_gone_is_forgotten_and_numbers_go_on(tmp_path: Path) -> None:
    """The journal is no longer than the folder's listing."""
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        one = near_line(at, job(tmp_path))
        await one._window(T0)
        for path in (tmp_path / "in").glob("*.*"):
            path.unlink()
        (tmp_path / "in" / "new.npy").write_bytes(npy(noise(3)))
        await one._window(T0 + 900)

    go(tmp_path, scenario)
    with Journal(tmp_path / "out", read_only=True) as journal:
        assert set(journal.entries()) == {"a/one.png", "a/two.png", "f/größe.npy", "new.npy"}
        assert [part.number for part in journal.parts()] == [9, 10]


class Slow:
    """Answers as the inference core does, on a clock where each batch takes a second."""

    def __init__(self, at: Serving) -> None:
        self._at, self.time = at, 1000.0

    def now(self) -> float:
        return self.time

    async def ask(self, served: Served, rows: Rows, _: float, priority: Priority) -> Answer:
        self.time += 1.0
        return await self._at.inference.answer(served, rows, time.monotonic() + 60, priority)


def test_a_window_ends_on_time_and_what_is_late_goes_first_in_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / "in" / f"{number}.npy").write_bytes(npy(noise(20, number)))

    async def scenario(at: Serving) -> None:
        slow = Slow(at)
        one = near_line(at, job(tmp_path, every_minutes=0.2), ask=slow.ask, now=slow.now)
        began = slow.time
        assert await one._window(T0) == "late"
        assert slow.time - began <= 12.0 + 1.0  # the batch that was begun within it
        assert (one.status.late, one.status.behind, one.status.alert) == (4, 1, None)
        assert at.count("late_total", job="belt") == 4
        assert await one._window(T0 + 12) == "late"
        assert await one._window(T0 + 24) == "complete"
        assert (one.status.late, one.status.behind) == (0, 0)

    go(tmp_path, scenario)
    said = [(line["name"], line["row"]) for line in lines(tmp_path / "out")]
    assert said == [(f"{number}.npy", row) for number in range(6) for row in range(20)]
    late = [r for r in caplog.records if r.message == "nearline_late"]
    assert [r.__dict__["late"] for r in late] == [4, 2]


def test_behind_for_several_windows_is_an_alert(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "huge.npy").write_bytes(npy(noise(500)))

    async def scenario(at: Serving) -> None:
        slow = Slow(at)
        settings = job(tmp_path, every_minutes=0.05, behind_max=3)
        one = near_line(at, settings, ask=slow.ask, now=slow.now)
        for window in range(3):
            assert one.status.alert is None
            await one._window(T0 + window)
        assert one.status.alert is not None
        assert one.status.alert.startswith("3 windows in a row left work undone, the last one 1 ")
        assert at.count("behind_windows", job="belt") == 3

    go(tmp_path, scenario)


def test_a_batch_that_would_end_after_the_window_is_not_begun(tmp_path: Path) -> None:
    async def scenario(at: Serving) -> None:
        asked: list[Rows] = []

        async def ask(served: Served, rows: Rows, _: float, priority: Priority) -> Answer:
            asked.append(rows)
            return await at.inference.answer(served, rows, time.monotonic() + 60, priority)

        def model() -> OnlineModel:
            return OnlineModel(
                at.pool.find,
                ask,
                "tiny-cloud",
                None,
                stop=asyncio.Event(),
                now=lambda: 10.0,
                on_wait=lambda: None,
            )

        (served,) = at.pool.served
        cost_s = served.model.curve.cost_s(3)
        too_late, in_time = model(), model()
        await too_late.begin(10.0 + cost_s * 0.9)
        assert await too_late.answer(noise(3)) is None
        assert asked == []
        await in_time.begin(10.0 + cost_s * 1.1)
        assert await in_time.answer(noise(3)) is not None

    go(tmp_path, scenario)


def test_a_batch_that_is_put_off_is_asked_again_until_it_is_answered(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        refusals = 5

        async def ask(served: Served, rows: Rows, deadline: float, priority: Priority) -> Answer:
            nonlocal refusals
            assert priority is Priority.NEAR_LINE
            if refusals:
                refusals -= 1
                raise Overloaded("busy")
            return await at.inference.answer(served, rows, deadline, priority)

        assert await near_line(at, job(tmp_path), ask=ask)._window(T0) == "complete"
        assert at.count("waits_total", job="belt") == 5
        assert at.count("rows_total", job="belt") == 97

    go(tmp_path, scenario)


def test_a_stand_in_for_the_model_is_not_written(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        rules = 2

        async def ask(served: Served, rows: Rows, deadline: float, priority: Priority) -> Answer:
            nonlocal rules
            answer = await at.inference.answer(served, rows, deadline, priority)
            if rules:
                rules -= 1
                return answer._replace(source="rule")
            return answer

        await near_line(at, job(tmp_path), ask=ask)._window(T0)
        assert at.count("waits_total", job="belt") == 2
        assert at.count("rows_total", job="belt") == 97

    go(tmp_path, scenario)


def test_an_online_tier_that_is_always_full_leaves_everything_late(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        async def ask(*_: object) -> Answer:
            raise Overloaded("busy")

        one = near_line(at, job(tmp_path, every_minutes=0.01), ask=ask)
        assert await one._window(T0) == "late"
        assert one.status.late == 8

    go(tmp_path, scenario)


def test_a_model_that_is_not_here_fails_the_window_and_not_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        one = near_line(at, job(tmp_path, model="other", every_minutes=0.02))
        running = asyncio.create_task(one.run())
        await until(lambda: one.status.state == "failed")
        one.drain()
        await running
        assert at.count("windows_total", job="belt", ended="failed") >= 1

    go(tmp_path, scenario)
    assert any(r.message == "nearline_failed" for r in caplog.records)


def test_two_workers_share_a_job_and_no_row_is_answered_twice(tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")

    async def scenario(at: Serving) -> None:
        jobs = [near_line(at, job(tmp_path, every_minutes=0.02))]
        jobs.append(
            NearLine(
                jobs[0]._settings,
                jobs[0]._source,
                at.pool.find,
                at.inference.answer,
                jobs[0]._counts,
            )
        )
        tasks = [asyncio.create_task(one.run()) for one in jobs]
        await until(lambda: at.count("rows_total", job="belt") == 97)
        for one in jobs:
            one.drain()
        await asyncio.gather(*tasks)

    go(tmp_path, scenario)
    assert len(lines(tmp_path / "out")) == 97


def test_drain_ends_a_window_after_its_batch_and_keeps_its_answers(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.npy").write_bytes(npy(noise(400)))

    async def scenario(at: Serving) -> None:
        asked = 0

        async def ask(served: Served, rows: Rows, deadline: float, priority: Priority) -> Answer:
            nonlocal asked
            asked += 1
            if asked == 7:
                one.drain()
            return await at.inference.answer(served, rows, deadline, priority)

        one = near_line(at, job(tmp_path), ask=ask)
        assert await one._window(T0) == "late"
        await one.run()  # drained: it returns

    go(tmp_path, scenario)
    assert [line["row"] for line in lines(tmp_path / "out")] == list(range(24))
