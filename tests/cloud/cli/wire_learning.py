"""A learning process and a fleet's drift at the wire: the contract's documents, kept in memory.

What their real processes do with them is tested with those (`test_learning_way.py`).
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from cloud.api.problems import problem_of
from cloud.feedback.documents import DataSetSpec, DataSetVersion, FeedbackSample, Label, Source
from cloud.learning.documents import Cycle, FeatureCheck, Loop, LoopSettings, Phase, Refit
from cloud.monitoring.drift.documents import Accuracy, Alarm, DriftState, ScopeState
from cloud.training.documents import (
    Job,
    JobSpec,
    JobState,
    LogLine,
    Point,
    Quota,
    Run,
    WorkerState,
)
from shared.errors import Conflict, HybridgeError, Unknown
from tests.cloud.cli.learning_views import (
    ARTIFACT,
    FEATURES,
    NOW,
    SCOPE,
    cycle,
    data_set,
    job,
    png,
)
from tests.cloud.cli.own_registry import Said, hybridge

Answer = dict[str, Any] | list[Any] | bytes | None


@dataclass
class WireLearning:
    """`asked`: method, path with its query, and body of each request."""

    url: str = ""
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    samples: dict[str, FeedbackSample] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    lines: list[LogLine] = field(default_factory=list)
    sets: list[DataSetVersion] = field(default_factory=list)
    loops: dict[str, Loop] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    checks: list[FeatureCheck] = field(default_factory=list)
    alarms: list[Alarm] = field(default_factory=list)
    page: int = 2
    """Rows of one answer, whatever is asked for."""
    on_long_poll: Callable[["WireLearning"], None] = lambda _: None
    """Called for a question that would wait, before it is answered."""

    def words(self) -> list[str]:
        """Method and path of each request that changes something."""
        return [f"{method} {path}" for method, path, _ in self.asked if method != "GET"]

    def run(self, *arguments: str) -> Said:
        return hybridge(*arguments, "--learning", self.url)

    def json(self, *arguments: str) -> Any:
        return self.run(*arguments, "-o", "json").json

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        match [method, *path.removeprefix("/v1/").split("/")]:
            case ["GET", "feedback"]:
                return {"rows": len(self.samples), "bytes": 784 * len(self.samples)}
            case ["GET", "feedback", "samples"]:
                return self._samples(query)
            case ["GET", "feedback", "samples", _, name]:
                return _tree(_known(self.samples, name))
            case ["GET", "feedback", "samples", _, name, "image"]:
                _known(self.samples, name)
                return png()
            case ["GET", "feedback", "samples", _, name, "tensor"]:
                return b"npy of " + name.encode()
            case ["PUT", "feedback", "samples", _, name, "label"]:
                return _tree(self._label(name, int(body["label"]), str(body["comment"])))
            case ["DELETE", "feedback", "samples", _, name, "label"]:
                self._label(name, None, "")
                return None
            case ["POST", "feedback", "delete"]:
                gone = [n for n, one in self.samples.items() if one.device == body["device"]]
                for name in gone:
                    del self.samples[name]
                return {"rows": len(gone), "bytes": 784 * len(gone), "data_sets": ["field 1"]}
            case ["GET", "data-sets"]:
                return {"data_sets": [_tree(one) for one in self.sets]}
            case ["POST", "data-sets", "plan"]:
                refused = "" if body.get("rows_max", 2) > 1 else "a single class"
                plan = {"rows": 7, "holdout_rows": 1, "devices": 2, "bytes": 3, "refused": refused}
                return plan | {"per_class": [3, 4], "excluded": {"low_rank": 2}}
            case ["POST", "data-sets", name]:
                made = data_set(name, 1 + len(self.sets), DataSetSpec.model_validate(body))
                self.sets.append(made)
                return _tree(made)
            case ["GET", "data-sets", name, *number]:
                wanted = [one for one in self.sets if one.name == name]
                wanted = [one for one in wanted if not number or str(one.number) == number[0]]
                if not wanted:
                    raise Unknown(f"data set {name} {''.join(number[:1])}: there is none")
                return b"npz" if number[1:] == ["file"] else _tree(wanted[-1])
            case ["DELETE", "data-sets", name, number]:
                self.sets = [
                    one for one in self.sets if (one.name, str(one.number)) != (name, number)
                ]
                return None
            case ["POST", "jobs"]:
                made_job = job(f"job-{len(self.jobs)}", spec=JobSpec.model_validate(body),
                               state=JobState.QUEUED, place=1, run=None, worker="")  # fmt: skip
                self.jobs[made_job.id] = made_job
                return _tree(made_job)
            case ["GET", "jobs"]:
                return self._jobs(query)
            case ["GET", "jobs", name]:
                return _tree(_known(self.jobs, name))
            case ["POST", "jobs", name, "cancel"]:
                return _tree(self._change(name, state=JobState.CANCELLED, why=body["comment"]))
            case ["POST", "jobs", name, "priority"]:
                spec = _known(self.jobs, name).spec
                priority = {"priority": body["priority"]}
                return _tree(self._change(name, spec=spec.model_copy(update=priority)))
            case ["GET", "jobs", name, "logs"]:
                _known(self.jobs, name)
                if "wait_s" in query:
                    self.on_long_poll(self)
                after = int(query.get("after", 0))
                return {"lines": [_tree(one) for one in self.lines if one.seq > after][: self.page]}
            case ["GET", "jobs", name, "run"]:
                return _tree(_known(self.runs, name))
            case ["GET", "jobs", name, "points"]:
                step = int(query.get("after", -1)) + 1
                points = [
                    Point(metric=query["metric"], step=n, value=1 / (n + 1), at=NOW)
                    for n in range(step, min(step + int(query["limit"]), 5))
                ]
                return {"points": [_tree(one) for one in points]}
            case ["GET", "jobs", _, "artifacts", _]:
                return ARTIFACT
            case ["GET", "workers"]:
                worker = WorkerState(name="w1", cpus=2, cpus_free=1, seen_at=NOW, jobs=("one",))
                return {"workers": [_tree(worker)]}
            case ["GET", "quotas"]:
                return {"quotas": [_tree(one) for one in self.quotas.values()]}
            case ["PUT", "quotas", team]:
                self.quotas[team] = Quota.model_validate(body)
                return _tree(self.quotas[team])
            case ["DELETE", "quotas", team]:
                del self.quotas[team]
                return None
            case ["GET", "loops"]:
                return {"loops": [_tree(one) for one in self.loops.values()]}
            case ["GET", "loops", name]:
                return _tree(_known(self.loops, name))
            case ["PUT", "loops", name]:
                before = self.loops.get(name)
                settings = LoopSettings.model_validate_json(json.dumps(body), strict=True)
                revision = 1 if before is None else before.revision + 1
                self.loops[name] = Loop(settings=settings, revision=revision)
                return _tree(self.loops[name])
            case ["DELETE", "loops", name]:
                del self.loops[name]
                return None
            case ["GET", "loops", name, "cycles"]:
                found = _known(self.loops, name)
                return {"cycles": [_tree(one) for one in (found.cycle, found.last) if one]}
            case ["POST", "loops", name, "begin"]:
                if _known(self.loops, name).cycle is not None:
                    raise Conflict(f"{name}: a cycle runs already")
                return _tree(
                    self.turn(name, cycle(phase=Phase.COLLECTING, data_set=None, job=None))
                )
            case [_, "loops", name, "refit"]:
                return _tree(
                    Refit(
                        model=name, version="1.0.0", confidence_min=0.72, before=0.6, epsilon=0.01,
                        delta=0.05, samples=900, escalated_share=0.2, words="900 fresh samples",
                    )
                )  # fmt: skip
            case ["GET", "cycles", name]:
                if "wait_s" in query:
                    self.on_long_poll(self)
                return _tree(self._cycle(name))
            case ["GET", "cycles", name, "log"]:
                return {"lines": [{"at": NOW, "words": f"{name} began"}]}
            case ["POST", "cycles", name, "decide"]:
                found = self._cycle(name)
                phase = Phase.STOPPED if body["verb"] == "stop" else Phase.RELEASING
                ended = NOW + 1 if body["verb"] == "stop" else None
                return _tree(
                    self.turn(
                        found.model,
                        found.model_copy(
                            update={"phase": phase, "asks": None, "ended_at": ended,
                                    "revision": found.revision + 1, "why": body["comment"]}
                        ),
                    )
                )  # fmt: skip
            case ["GET", "checks"]:
                return {"checks": [_tree(one) for one in self.checks]}
            case ["POST", "checks", name]:
                return _tree(next(one for one in self.checks if one.model == name))
            case ["GET", "drift"]:
                return self._drift(query)
            case ["GET", "drift", "alarms"]:
                on = [one for one in self.alarms if one.closed_at is None or "on" not in query]
                return {"alarms": [_tree(one) for one in on]}
            case ["GET", "drift", "alarms", name]:
                return _tree(_known({one.id: one for one in self.alarms}, name))
            case ["POST", "drift", "alarms", name, "seen"]:
                found_alarm = _known({one.id: one for one in self.alarms}, name)
                return _tree(found_alarm.model_copy(update={"seen_by": "anna"}))
        raise Unknown(f"{method} {path}: no such route")

    def turn(self, model: str, to: Cycle) -> Cycle:
        """The loop's cycle is this from now on."""
        known = self.loops[model]
        self.loops[model] = known.model_copy(
            update={"cycle": None, "last": to} if to.ended_at is not None else {"cycle": to}
        )
        return to

    def _cycle(self, name: str) -> Cycle:
        both = [one for found in self.loops.values() for one in (found.cycle, found.last) if one]
        found: Cycle = _known({one.id: one for one in reversed(both)}, name)
        return found

    def _samples(self, query: dict[str, str]) -> Answer:
        found = [
            one for one in self.samples.values()
            if ("unlabelled" not in query or not one.labels)
            and one.device == query.get("device", one.device)
            and one.cloud_confidence < float(query.get("unsure", 2))
        ]  # fmt: skip
        start = int(query.get("after", 0))
        end = start + min(self.page, int(query["limit"]))
        rest = str(end) if end < len(found) else None
        return {"samples": [_tree(one) for one in found[start:end]], "next": rest}

    def _jobs(self, query: dict[str, str]) -> Answer:
        found = [one for one in self.jobs.values() if query.get("state", one.state) == one.state]
        names = [one.id for one in found]
        start = names.index(query["after"]) + 1 if "after" in query else 0
        page = found[start : start + min(self.page, int(query["limit"]))]
        rest = page[-1].id if page and page[-1].id != names[-1] else None
        return {"jobs": [_tree(one) for one in page], "next": rest}

    def _label(self, name: str, label: int | None, comment: str) -> FeedbackSample:
        known = _known(self.samples, name)
        said = () if label is None else (
            Label(label=label, source=Source.PERSON, by="anna", at=NOW, comment=comment),
        )  # fmt: skip
        counts = (known.cloud_label, Source.CLOUD) if label is None else (label, Source.PERSON)
        update = {"labels": said, "label": counts[0], "label_source": counts[1]}
        self.samples[name] = known.model_copy(update=update)
        return self.samples[name]

    def _change(self, name: str, **update: Any) -> Job:
        known = _known(self.jobs, name)
        if known.ended_at is not None:
            raise Conflict(f"{name} is over")
        self.jobs[name] = known.model_copy(update=update)
        return self.jobs[name]

    def _drift(self, query: dict[str, str]) -> Answer:
        accuracy = Accuracy(
            estimate=0.62, low=0.55, high=0.7, audits=90, samples=1000, expected=0.91
        )
        state = ScopeState(
            scope=SCOPE, samples=200, features=FEATURES, novel_share=0.4, accuracy=accuracy,
            devices=5, updated_at=NOW,
        )  # fmt: skip
        wanted = query.get("name", SCOPE.name) == SCOPE.name
        on = tuple(one for one in self.alarms if one.closed_at is None)
        return _tree(DriftState(scopes=(state,) if wanted else (), alarms=on))


def _tree(document: Any) -> dict[str, Any]:
    return document.model_dump(mode="json")  # type: ignore[no-any-return]


def _known(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise Unknown(f"{name}: there is none")
    return found[name]


@contextmanager
def wire_learning() -> Iterator[WireLearning]:
    """Answering, in a thread of its own, until the block ends."""
    wire = WireLearning()

    async def handle(request: web.Request) -> web.Response:
        content = await request.read()
        body = json.loads(content) if content else None
        wire.asked.append((request.method, request.path_qs, body))
        try:
            found = wire.answer(request.method, request.path, dict(request.query), body)
        except HybridgeError as error:
            said = problem_of(error)
            return web.Response(status=said.status, body=said.body("1"), headers=dict(said.headers))
        if found is None:
            return web.Response(status=204)
        if isinstance(found, bytes):
            return web.Response(body=found)
        return web.json_response(found)

    ready, ending = threading.Event(), asyncio.Event()
    running = asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        wire.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await ending.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: running.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield wire
    finally:
        running.call_soon_threadsafe(ending.set)
        thread.join(10)
        running.close()
