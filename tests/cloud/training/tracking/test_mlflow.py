"""Runs copied to an HTTP server that takes what MLflow's REST API documents, and nothing else."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import pytest
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.documents import JobSpec, JobState, Point, Run, Supervised
from cloud.training.queue.ending import Broke
from cloud.training.queue.queue import JobQueue
from cloud.training.queue.settings import Training
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.mlflow import TAG, copy_to, export
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.desk import Desk, Held
from cloud.training.worker.notes import Notes
from shared.errors import Disconnected, Refused
from tests.cloud.training.worker.standing import Standing, until


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Pair(Strict):
    key: Annotated[str, Field(min_length=1, max_length=250)]
    value: Annotated[str, Field(max_length=6000)]


class Metric(Strict):
    key: Annotated[str, Field(min_length=1, max_length=250)]
    value: float
    timestamp: int
    step: int


class CreateExperiment(Strict):
    name: str


class Search(Strict):
    experiment_ids: list[str]
    filter: str
    max_results: Annotated[int, Field(le=50_000)]


class CreateRun(Strict):
    experiment_id: str
    run_name: str
    start_time: int
    tags: list[Pair]


class LogBatch(Strict):
    run_id: str
    metrics: Annotated[list[Metric], Field(max_length=1000)] = []
    params: Annotated[list[Pair], Field(max_length=100)] = []
    tags: Annotated[list[Pair], Field(max_length=100)] = []


class Update(Strict):
    run_id: str
    status: Literal["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]
    end_time: int


class Mlflow:
    """Keeps what it is sent, as documented: a metric's step is one point, a parameter never changes."""

    def __init__(self) -> None:
        self.experiments, self.runs = {}, {}
        self.metrics, self.params, self.status = {}, {}, {}

    def app(self):
        app = web.Application()
        at = "/api/2.0/mlflow"
        app.router.add_get(f"{at}/experiments/get-by-name", self.by_name)
        for path, kind, handler in (
            ("experiments/create", CreateExperiment, self.create_experiment),
            ("runs/search", Search, self.search), ("runs/create", CreateRun, self.create),
            ("runs/log-batch", LogBatch, self.log_batch), ("runs/update", Update, self.update),
        ):  # fmt: skip
            app.router.add_post(f"{at}/{path}", self.reading(kind, handler))
        return app

    @staticmethod
    def reading(kind, handler):
        async def handle(request):
            try:
                body = kind.model_validate_json(await request.read())
            except ValidationError as error:
                return web.json_response({"error_code": str(error)}, status=400)
            return web.json_response(handler(body))

        return handle

    async def by_name(self, request):
        name = request.query["experiment_name"]
        if name not in self.experiments:
            return web.json_response({"error_code": "RESOURCE_DOES_NOT_EXIST"}, status=404)
        return web.json_response({"experiment": {"experiment_id": self.experiments[name]}})

    def create_experiment(self, body):
        self.experiments[body.name] = "7"
        return {"experiment_id": "7"}

    def search(self, body):
        wanted = body.filter.partition("'")[2].rstrip("'")
        assert body.filter.startswith(f"tags.`{TAG}` = ")
        found = [one for one, run in self.runs.items() if Pair(key=TAG, value=wanted) in run.tags]
        return {"runs": [{"info": {"run_id": one}} for one in found]}

    def create(self, body):
        self.runs[f"run-{len(self.runs)}"] = body
        return {"run": {"info": {"run_id": f"run-{len(self.runs) - 1}"}}}

    def log_batch(self, body):
        for one in body.metrics:
            self.metrics[body.run_id, one.key, one.step] = one.value
        for one in body.params:
            assert self.params.setdefault((body.run_id, one.key), one.value) == one.value
        return {}

    def update(self, body):
        self.status[body.run_id] = (body.status, body.end_time)
        return {}


RUN = Run(
    id="job-1", parameters={"kind": "finetune", "fitting": {"epochs": 3}}, data_set="a" * 64,
    code_version="0.1.0+abc", machine="a cpu", started_at=10.0, ended_at=20.5,
)  # fmt: skip
POINTS = [Point(metric="loss", step=n, value=1.0 / (n + 1), at=10.0 + n) for n in range(2500)]


@asynccontextmanager
async def serving(app):
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


def test_a_run_is_there_once_however_often_it_is_copied():
    mlflow = Mlflow()

    async def twice():
        async with serving(mlflow.app()) as url:
            first = await export(url, RUN, POINTS[:5], JobState.FAILED)
            return first, await export(url + "/", RUN, POINTS, JobState.DONE)

    first, second = asyncio.run(twice())
    assert first == second == "run-0"
    assert len(mlflow.runs) == 1
    assert {(step, value) for (_, _, step), value in mlflow.metrics.items()} == {
        (one.step, one.value) for one in POINTS
    }
    assert mlflow.params["run-0", "fitting.epochs"] == "3"
    assert mlflow.status["run-0"] == ("FINISHED", 20_500)
    tags = {one.key: one.value for one in mlflow.runs["run-0"].tags}
    assert tags["mlflow.source.git.commit"] == "0.1.0+abc"
    assert tags["hybridge.data_set"] == "a" * 64


def test_figures_that_were_measured_once_are_copied_beside_the_points():
    mlflow = Mlflow()
    run = RUN.model_copy(update={"figures": {"loss": 1 / 2500, "clean.accuracy": 0.75}})

    async def copied():
        async with serving(mlflow.app()) as url:
            await export(url, run, POINTS, JobState.DONE)

    asyncio.run(copied())
    assert mlflow.metrics.pop(("run-0", "clean.accuracy", 2499)) == 0.75
    assert {step: value for (_, _, step), value in mlflow.metrics.items()} == {
        one.step: one.value for one in POINTS
    }


class InSegments(Mlflow):
    """Each answer comes in two, the second when the first has been taken."""

    @staticmethod
    def reading(kind, handler):
        async def handle(request):
            answer = web.StreamResponse()
            await answer.prepare(request)
            content = json.dumps(handler(kind.model_validate_json(await request.read()))).encode()
            await answer.write(content[:3])
            await asyncio.sleep(0.05)  # else the kernel makes one of both
            await answer.write(content[3:])
            return answer

        return handle


def test_an_answer_that_comes_in_segments_is_read_to_its_end():
    mlflow = InSegments()

    async def copied():
        async with serving(mlflow.app()) as url:
            return await export(url, RUN, POINTS[:5], JobState.DONE)

    assert asyncio.run(copied()) == "run-0"
    assert len(mlflow.metrics) == 5


def test_an_answer_without_an_end_is_refused():
    async def endless(request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)

    async def copied():
        app = web.Application()
        app.router.add_get("/{path:.*}", endless)
        async with serving(app) as url:
            await export(url, RUN, [], JobState.DONE)

    with pytest.raises(Refused, match="its answer is over 1048576 bytes"):
        asyncio.run(copied())


def test_a_copy_ends_however_slowly_each_of_its_answers_comes(monkeypatch):
    monkeypatch.setattr("cloud.training.tracking.mlflow._COPY_S", 0.3)

    async def silent(_):
        await asyncio.Event().wait()

    async def copied():
        app = web.Application()
        app.router.add_get("/{path:.*}", silent)
        async with serving(app) as url:
            await export(url, RUN, [], JobState.DONE)

    with pytest.raises(Disconnected, match="timed out"):
        asyncio.run(copied())


def test_a_worker_copies_the_run_of_each_job_that_ends_and_of_no_other(tmp_path):
    mlflow = Mlflow()

    async def go():
        async with serving(mlflow.app()) as url:
            at = Standing(tmp_path / "at", f'mlflow = "{url}"')
            async with at.working():
                jobs = {
                    JobState.DONE: await at.submit("trains", steps=30),
                    JobState.FAILED: await at.submit("fails"),
                    JobState.CANCELLED: await at.submit("trains", steps=9_999, pace_s=0.01),
                }
                waits = await at.submit("trains", steps=9_998, pace_s=0.01)
                for job in (jobs[JobState.CANCELLED], waits):
                    await until(lambda job=job: stepped(at, job), bool)
                await at.queue.cancel(jobs[JobState.CANCELLED], "", "ann")
                over = {state: await at.over(job) for state, job in jobs.items()}
        at.close()
        return over, waits

    async def stepped(at, job):
        found = await at.queue.job(job)
        return found.run is not None and await at.tracking.points(job)

    over, waits = asyncio.run(go())
    there = {one.run_name: name for name, one in mlflow.runs.items()}
    assert waits not in there
    status = {JobState.DONE: "FINISHED", JobState.FAILED: "FAILED", JobState.CANCELLED: "KILLED"}
    for state, job in over.items():
        assert job.state is state
        assert mlflow.status[there[job.id]] == (status[state], int(job.ended_at * 1000))
    done = there[over[JobState.DONE].id]
    losses = {
        step: value
        for (run, key, step), value in mlflow.metrics.items()
        if (run, key) == (done, "loss")
    }
    assert losses == {step: 1 / step for step in range(1, 31)}
    assert mlflow.params[done, "steps"] == "30"


def test_a_run_of_more_than_a_page_of_points_is_copied_whole(tmp_path):
    mlflow, metrics = Mlflow(), [f"m{number}" for number in range(6)]
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    database.open()
    rules = Training(points_max=2000, clock_off_s_max=1e12)
    queue = JobQueue(database, rules, FolderBlobs(tmp_path / "blobs"), lambda: 100.0)
    desk = Desk(database, rules, "w", "t", 4, lambda: 100.0)
    recipe = Supervised(version="1.0.0", name="n", network="edge-net", base="b")

    async def go():
        job = (await queue.submit(JobSpec(recipe=recipe), "ann")).id
        (claimed,) = (await desk.beat((), "", claims=True)).claimed
        notes = Notes(run=RUN.model_copy(update={"id": job, "ended_at": None}))
        for step in range(1000):
            notes.measured(step, dict.fromkeys(metrics, step / 2), 50.0 + step)
        await desk.end(Held(claimed, notes, 1.0, 1.0), Broke("no more"))
        async with serving(mlflow.app()) as url:
            await copy_to(url, Tracking(database), job)

    asyncio.run(go())
    database.close()
    assert {(key, step): value for (_, key, step), value in mlflow.metrics.items()} == {
        (metric, step): step / 2 for metric in metrics for step in range(1000)
    }
    assert mlflow.status == {"run-0": ("FAILED", 100_000)}


def test_a_server_that_is_away_is_logged_and_nothing_else_suffers(tmp_path, caplog):
    at = Standing(tmp_path / "at", 'mlflow = "http://127.0.0.1:9"')

    async def go():
        async with at.working():
            return await at.over(await at.submit("fails"))

    over = asyncio.run(go())
    at.close()
    assert over.state is JobState.FAILED
    (record,) = [one for one in caplog.records if one.msg == "mlflow_export_failed"]
    assert record.job == over.id


def test_a_server_that_is_none_is_named():
    async def wrong():
        async with serving(web.Application()) as url:
            await export(url, RUN, [], JobState.DONE)

    with pytest.raises(Refused, match="MLflow experiments/create: 404"):
        asyncio.run(wrong())


def test_a_server_that_nests_without_end_ends_no_worker(tmp_path, caplog):
    async def nested(_):
        return web.Response(text="[" * 200_000)

    async def go():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", nested)
        async with serving(app) as url:
            at = Standing(tmp_path / "at", f'mlflow = "{url}"')
            async with at.working():
                over = await at.over(await at.submit("fails"))
            at.close()
            with pytest.raises(Refused, match="its answer is no JSON"):
                await export(url, RUN, [], JobState.DONE)
        return over

    over = asyncio.run(go())
    assert over.state is JobState.FAILED
    (record,) = [one for one in caplog.records if one.msg == "mlflow_export_failed"]
    assert record.job == over.id


def test_a_server_that_is_away_is_said():
    with pytest.raises(Disconnected):
        asyncio.run(export("http://127.0.0.1:9", RUN, [], JobState.DONE))
