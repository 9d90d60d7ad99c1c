"""Training's routes behind the real document server: who may what, and what is said."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from cloud.api.about import Description
from cloud.api.checked import PathRules
from cloud.api.document_server import DocumentServer
from cloud.api.settings import DocumentApi
from cloud.registry.artifacts.folder_blobs import FolderBlobs
from cloud.training.api.limits import PLACEHOLDERS, TrainingLimits
from cloud.training.api.routes import TrainingRoutes
from cloud.training.documents import Artifact, Run
from cloud.training.queue.ending import Done
from cloud.training.queue.queue import JobQueue
from cloud.training.queue.settings import Training
from cloud.training.store.database import LearningDatabase
from cloud.training.tracking.tracking import Tracking
from cloud.training.worker.desk import Desk, Held
from cloud.training.worker.notes import Notes

SPEC = {
    "recipe": {
        "kind": "supervised",
        "version": "1.0.0",
        "name": "n",
        "network": "edge-net",
        "base": "b",
    }
}
CONTENT = b"a bundle"
SHA256 = "0d7f5ef0ffde4efb7a3e5a9cb3cd3b5c9b1e0fd7a9dbb2a0d0d5f9f2a6c5b4a3"


class At:
    def __init__(self, folder):
        self.database = LearningDatabase(f"sqlite:///{folder / 'learning.db'}")
        self.database.open()
        self.blobs = FolderBlobs(folder / "artifacts")
        rules = Training()
        self.queue = JobQueue(self.database, rules, self.blobs, time.time)
        self.desk = Desk(self.database, rules, "w", "t", 4, time.time)
        counts = CollectorRegistry()
        self.server = DocumentServer(
            DocumentApi(json_bytes_max=65_536, bodies_bytes_max=1_000_000), None,
            lambda asking, ending: TrainingRoutes(
                self.queue, Tracking(self.database), self.blobs, asking, ending,
                TrainingLimits(look_s=0.01),
            ).routes(),
            PathRules(PLACEHOLDERS), Description("t", "t"),
            Histogram("s", "s", ["operation"], registry=counts),
            Counter("u", "u", registry=counts), counts,
        )  # fmt: skip

    @asynccontextmanager
    async def asking(self):
        async with self.server.listening() as url, aiohttp.ClientSession(url) as session:

            async def ask(method, path, body=None, **headers):
                async with session.request(method, path, json=body, headers=headers) as answer:
                    content = await answer.read()
                    is_json = answer.content_type.endswith("json")
                    return answer.status, json.loads(content) if is_json else content

            yield ask


@pytest.fixture
def at(tmp_path):
    found = At(tmp_path)
    yield found
    found.database.close()


def test_a_job_from_its_submission_to_its_bundle(at):
    async def go():
        async with at.asking() as ask:
            status, job = await ask("POST", "/v1/jobs", SPEC, **{"Idempotency-Key": "k"})
            assert status == 201
            again = await ask("POST", "/v1/jobs", SPEC, **{"Idempotency-Key": "k"})
            assert again[1]["id"] == job["id"]
            path = f"/v1/jobs/{job['id']}"
            assert (await ask("POST", f"{path}/priority", {"priority": 9}))[1]["spec"][
                "priority"
            ] == 9
            assert (await ask("GET", f"{path}/run"))[0] == 404
            waits = asyncio.create_task(ask("GET", f"{path}/logs?wait_s=20"))
            (claimed,) = (await at.desk.beat((), "nothing", claims=True)).claimed
            notes = Notes(
                run=Run(id=job["id"], parameters={}, code_version="1", machine="m", started_at=1.0)
            )
            notes.said("hello", 1.0)
            notes.measured(1, {"loss": 0.5}, 1.0)
            await at.desk.beat([Held(claimed, notes, 1.0, 0.5)], "nothing", claims=True)
            assert [one["text"] for one in (await waits)[1]["lines"]] == ["hello"]
            points = await ask("GET", f"{path}/points?metric=loss&limit=5")
            assert points[1]["points"] == [{"metric": "loss", "step": 1, "value": 0.5, "at": 1.0}]
            at.blobs.put(SHA256, CONTENT)
            kept = [Artifact(name="n.hyb", sha256=SHA256, bytes=len(CONTENT))]
            await at.desk.end(Held(claimed, Notes(), 1.0, 1.0), Done("n@1.0.0", SHA256), kept)
            assert (await ask("GET", f"{path}/artifacts/n.hyb")) == (200, CONTENT)
            assert (
                await ask("GET", f"{path}/artifacts/n.hyb", **{"If-None-Match": f'"{SHA256}"'})
            )[0] == 304
            assert (await ask("GET", f"{path}/artifacts/other"))[0] == 404
            listed = (await ask("GET", "/v1/jobs?state=done"))[1]
            assert ([one["id"] for one in listed["jobs"]], listed["next"]) == ([job["id"]], None)
            # nothing more is said by a job that has ended, so nobody waits for it
            assert (await ask("GET", f"{path}/logs?after=1&wait_s=20"))[1] == {"lines": []}
            assert (await ask("POST", f"{path}/cancel", {"comment": "late"}))[0] == 409
            workers = (await ask("GET", "/v1/workers"))[1]["workers"]
            assert (workers[0]["name"], workers[0]["kept_apart_by"]) == ("w", "nothing")

    asyncio.run(go())


def test_quotas(at):
    async def go():
        async with at.asking() as ask:
            quota = {"team": "vision", "cpus_max": 2, "queued_max": 1, "weight": 2.0}
            assert (await ask("PUT", "/v1/quotas/vision", quota)) == (200, quota)
            assert (await ask("PUT", "/v1/quotas/other", quota))[0] == 400
            assert (await ask("GET", "/v1/quotas"))[1] == {"quotas": [quota]}
            spec = SPEC | {"team": "vision"}
            assert (await ask("POST", "/v1/jobs", spec))[0] == 201
            assert (await ask("POST", "/v1/jobs", spec))[0] in {429, 503}
            assert (await ask("DELETE", "/v1/quotas/vision"))[0] == 204
            assert (await ask("DELETE", "/v1/quotas/vision"))[0] == 404

    asyncio.run(go())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs", {"recipe": {"kind": "none"}}),
        ("POST", "/v1/jobs", SPEC | {"cpus": 1, "processes": 2}),
        ("POST", "/v1/jobs", SPEC | {"more": 1}),
        ("GET", "/v1/jobs?state=bad", None),
        ("GET", "/v1/jobs?team=../x", None),
        ("GET", "/v1/jobs?after=..", None),
        ("GET", "/v1/jobs/UPPER", None),
        ("GET", "/v1/jobs/a/points?metric=-", None),
        ("GET", "/v1/jobs/a/logs?wait_s=ever", None),
        ("POST", "/v1/jobs/a/priority", {"priority": 10}),
    ],
)
def test_what_is_no_request_is_refused_in_words(at, method, path, body):
    async def go():
        async with at.asking() as ask:
            return await ask(method, path, body)

    status, problem = asyncio.run(go())
    assert status == 400
    assert problem["detail"]


def test_a_key_that_is_none_is_refused(at):
    async def go():
        async with at.asking() as ask:
            return await ask("POST", "/v1/jobs", SPEC, **{"Idempotency-Key": "a b"})

    assert asyncio.run(go())[0] == 400
