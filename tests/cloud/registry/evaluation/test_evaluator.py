"""Claims, leases and their loss; what stops an evaluator, and what does not."""

import asyncio
import logging
from pathlib import Path

import pytest

from cloud.registry.catalog.commands import ClaimEvaluation, EndEvaluation, Reject, RenewEvaluation
from cloud.registry.documents import DataSet, StoredFile
from cloud.registry.evaluation import evaluation as evaluation_module
from cloud.registry.evaluation.evaluator import run_evaluator
from cloud.registry.evaluation.settings import EvaluationSettings
from tests.cloud.registry.evaluation.odd_models import hanging, write_odd
from tests.cloud.registry.evaluation.world import QUICK, World
from tests.tiny_bundle import write_tiny_bundle

HANGS = QUICK.model_copy(update={"lease_s": 0.3, "time_limit_s": 60.0})


@pytest.fixture
def world(tmp_path):
    (tmp_path / "registry").mkdir()
    found = World(tmp_path / "registry")
    found.set_gate("tiny-edge")
    return found


def test_nothing_queued_is_nothing_done(world):
    assert asyncio.run(world.evaluator().work_once()) is False


def test_it_works_until_it_is_told_to_stop(world, tmp_path):
    async def run() -> None:
        await world.push(write_tiny_bundle(tmp_path / "b"))
        stop, ended = asyncio.Event(), world.catalog.applies(EndEvaluation)
        working = asyncio.create_task(run_evaluator(world.catalog, world.artifacts, QUICK, stop))
        async with asyncio.timeout(60):
            await ended.wait()
            stop.set()
            await working

    asyncio.run(run())
    assert world.newest("tiny-edge", "1.0.0").state == "passed"


async def begun(world: World, folder: Path, settings: EvaluationSettings) -> asyncio.Task[bool]:
    """An evaluator that has claimed a version which hangs."""
    await world.push(write_odd(folder / "b", hanging()))
    claimed = world.catalog.applies(ClaimEvaluation)
    working = asyncio.create_task(world.evaluator(settings).work_once())
    async with asyncio.timeout(60):
        await claimed.wait()
    return working


def test_stop_leaves_what_is_being_measured_to_another(world, tmp_path):
    async def run() -> int:
        await world.push(write_odd(tmp_path / "b", hanging()))
        stop, claimed = asyncio.Event(), world.catalog.applies(ClaimEvaluation)
        working = asyncio.create_task(world.evaluator(HANGS).run(stop))
        async with asyncio.timeout(60):
            await claimed.wait()
            stop.set()
            await working
        world.now += 10
        claim = ClaimEvaluation("another", 60)
        return world.catalog.apply(claim, "another", world.now).evaluation.attempts

    assert asyncio.run(run()) == 2


def test_the_lease_is_renewed_while_it_works(world, tmp_path):
    async def run() -> None:
        working = await begun(world, tmp_path, HANGS)
        world.now += 0.2
        async with asyncio.timeout(60):
            await world.catalog.applies(RenewEvaluation, since=world.now).wait()
        claim = ClaimEvaluation("another", 60)
        late = world.now + 0.2  # after the first lease, within the renewed one
        assert world.catalog.apply(claim, "another", late).evaluation is None
        working.cancel()
        await asyncio.wait({working})

    asyncio.run(run())


def test_a_version_that_is_rejected_meanwhile_ends_the_work(world, tmp_path, caplog):
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        working = await begun(world, tmp_path, HANGS)
        world.catalog.apply(Reject("tiny-edge", "1.0.0", "no"), "approver", world.now)
        async with asyncio.timeout(30):
            assert await working

    asyncio.run(run())
    assert [one.message for one in caplog.records] == ["evaluation_dropped"]
    assert world.newest("tiny-edge", "1.0.0").state == "broken"


def test_what_another_claimed_meanwhile_is_dropped(world, tmp_path, caplog):
    """The lease ran out unnoticed, as after a suspend: its result must not count."""
    caplog.set_level(logging.WARNING)
    settings = QUICK.model_copy(update={"lease_s": 3000.0, "time_limit_s": 1.0})

    async def run() -> None:
        working = await begun(world, tmp_path, settings)
        world.now += 5000
        world.catalog.apply(ClaimEvaluation("another", 60), "another", world.now)
        async with asyncio.timeout(30):
            assert await working

    asyncio.run(run())
    found = world.newest("tiny-edge", "1.0.0")
    assert (found.state, found.evaluator) == ("running", "another")
    assert [one.message for one in caplog.records] == ["evaluation_dropped"]


def test_a_bug_in_one_evaluation_breaks_that_one_alone(world, tmp_path, monkeypatch, caplog):
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        await world.push(write_tiny_bundle(tmp_path / "b"))
        with monkeypatch.context() as patch:
            patch.setattr(evaluation_module, "decide", bug)
            assert await world.evaluator().work_once()
        await world.push(write_tiny_bundle(tmp_path / "c", version="1.0.1"))
        assert await world.evaluator().work_once()

    asyncio.run(run())
    assert world.newest("tiny-edge", "1.0.0").state == "broken"
    assert "a bug in the evaluator (ZeroDivisionError)" in world.newest("tiny-edge", "1.0.0").why
    assert world.newest("tiny-edge", "1.0.1").state == "passed"
    assert "ZeroDivisionError" in caplog.text


def test_files_that_are_gone_break_the_evaluation(world, tmp_path):
    async def run() -> None:
        await world.push(write_tiny_bundle(tmp_path / "b"))
        await world.artifacts.collect(set(), dry_run=False, now=2**40)
        assert await world.evaluator().work_once()

    asyncio.run(run())
    found = world.newest("tiny-edge", "1.0.0")
    assert found.state == "broken"
    assert "there is no artifact" in found.why


def test_a_data_set_that_is_no_npz_breaks_the_evaluation(world, tmp_path):
    async def run() -> None:
        content = b"not a zip"
        file = StoredFile(path="d.npz", sha256=await world.artifacts.put_bytes(content), bytes=9)
        data_set = DataSet(name="bad", version=1, file=file, rows=9, pushed_by="x", pushed_at=0)
        world.add(data_set)
        world.set_gate("tiny-edge", data_set="bad")
        await world.push(write_tiny_bundle(tmp_path / "b"))
        assert await world.evaluator().work_once()

    asyncio.run(run())
    found = world.newest("tiny-edge", "1.0.0")
    assert found.state == "broken"
    assert "data set bad 1: not a readable .npz file" in found.why


def test_a_catalog_that_is_away_is_said_once_and_waited_for(world, caplog, tmp_path):
    caplog.set_level(logging.WARNING)
    path = tmp_path / "registry" / "catalog.db"

    async def run() -> None:
        evaluator = world.evaluator()
        world.database.close()
        path.rename(path.with_suffix(".away"))
        path.mkdir()
        assert [await evaluator.work_once() for _ in range(2)] == [False, False]
        path.rmdir()
        path.with_suffix(".away").rename(path)
        assert await evaluator.work_once() is False

    asyncio.run(run())
    assert [one.message for one in caplog.records] == [
        "evaluator_catalog_away", "evaluator_catalog_back",
    ]  # fmt: skip
