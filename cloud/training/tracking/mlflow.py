"""A run copied to an MLflow server by its REST API (version 2.0), for those who compare runs there.

The source of truth stays here. A run is found again by the tag `hybridge.job`, so that a second copy
fills up the first one. Source: MLflow's documentation, "REST API": experiments/get-by-name and create,
runs/search, create, log-batch (at most 1000 metrics, 100 parameters and 100 tags, 1000 together) and
update.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

import aiohttp

from cloud.training.documents import JobState, Point, Run
from cloud.training.tracking.tracking import Tracking
from shared.errors import Disconnected, HybridgeError, Refused
from shared.fetching.session import reaching

log = logging.getLogger(__name__)
EXPERIMENT: Final = "hybridge"
TAG: Final = "hybridge.job"
_METRICS_MAX: Final = 1000
_PARAMETERS_MAX: Final = 100
_NAME_MAX: Final = 250
_VALUE_MAX: Final = 500
_ANSWER_BYTES_MAX: Final = 1 << 20
_POINTS_MAX: Final = 100_000
_REQUEST_S: Final = 60.0
_COPY_S: Final = 120.0
"""Of a whole run: a worker that is told to end waits for it."""
_PAGE: Final = 5000
_STATUS: Final = {JobState.DONE: "FINISHED", JobState.CANCELLED: "KILLED"}


async def copy_to(url: str, tracking: Tracking, job: str) -> None:
    """A run whose job ended. Never raises: what cannot be copied is logged, and nothing else suffers."""
    try:
        state = await tracking.ended_as(job)
        if state is None:
            return  # it goes on, here or elsewhere
        run = await tracking.run(job)
        points: list[Point] = []
        while len(points) < _POINTS_MAX:
            after = points[-1].step if points else -1
            page = await tracking.points(job, None, after, _PAGE)
            points += page
            if len(page) < _PAGE:
                break
        await export(url, run, points, state)
    except HybridgeError as error:
        log.warning("mlflow_export_failed", extra={"job": job, "why": str(error)[:300]})
    except Exception:
        log.exception("mlflow_export_bug", extra={"job": job})


async def export(
    url: str, run: Run, points: Sequence[Point], state: JobState, experiment: str = EXPERIMENT
) -> str:
    """Its id at the server. Raises `Disconnected`, or `Refused` with what the server says."""
    timeout = aiohttp.ClientTimeout(total=_REQUEST_S)
    async with aiohttp.ClientSession(
        timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        server = _Server(session, url.rstrip("/"))
        with reaching(url):
            async with asyncio.timeout(_COPY_S):
                where = await server.experiment(experiment)
                there = await server.run_of(where, run)
                for metrics in _batches([*points, *_figures(run, points)]):
                    await server.post("runs/log-batch", {"run_id": there, "metrics": metrics})
                await server.post("runs/log-batch", {"run_id": there, "params": _parameters(run)})
                ended = int((run.ended_at or run.started_at) * 1000)
                status = {
                    "run_id": there,
                    "status": _STATUS.get(state, "FAILED"),
                    "end_time": ended,
                }
                await server.post("runs/update", status)
    return there


class _Server:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def experiment(self, name: str) -> str:
        found = await self.get("experiments/get-by-name", {"experiment_name": name})
        if found is None:
            found = {"experiment": await self.post("experiments/create", {"name": name})}
        return _text(found, "experiment", "experiment_id")

    async def run_of(self, experiment: str, run: Run) -> str:
        asked = {
            "experiment_ids": [experiment], "max_results": 1,
            "filter": f"tags.`{TAG}` = '{run.id}'",
        }  # fmt: skip
        found = await self.post("runs/search", asked)
        runs = found.get("runs")
        if isinstance(runs, list) and runs:
            return _text({"run": runs[0]}, "run", "info", "run_id")
        tags = {
            TAG: run.id, "mlflow.source.git.commit": run.code_version,
            "hybridge.data_set": run.data_set or "none", "hybridge.machine": run.machine,
        }  # fmt: skip
        made = await self.post("runs/create", {
            "experiment_id": experiment, "run_name": run.id,
            "start_time": int(run.started_at * 1000),
            "tags": [{"key": key, "value": value[:_VALUE_MAX]} for key, value in tags.items()],
        })  # fmt: skip
        return _text(made, "run", "info", "run_id")

    async def get(self, path: str, query: dict[str, str]) -> dict[str, object] | None:
        """None where there is none."""
        at = f"{self._url}/api/2.0/mlflow/{path}?{urlencode(query)}"
        async with self._session.get(at) as answer:
            if answer.status == 404:
                return None
            return await _read(answer, path)

    async def post(self, path: str, body: object) -> dict[str, object]:
        async with self._session.post(f"{self._url}/api/2.0/mlflow/{path}", json=body) as answer:
            return await _read(answer, path)


async def _read(answer: aiohttp.ClientResponse, path: str) -> dict[str, object]:
    content = bytearray()
    async for part in answer.content.iter_any():  # `read` gives what has come by then
        content += part
        if len(content) > _ANSWER_BYTES_MAX:
            raise Refused(f"MLflow {path}: its answer is over {_ANSWER_BYTES_MAX} bytes")
    if answer.status >= 500:
        raise Disconnected(f"MLflow {path}: {answer.status}")
    if answer.status >= 400:
        raise Refused(f"MLflow {path}: {answer.status}: {content[:200].decode(errors='replace')}")
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(f"MLflow {path}: its answer is no JSON; is it an MLflow server?") from error
    return found if isinstance(found, dict) else {}


def _text(found: dict[str, object], *names: str) -> str:
    value: object = found
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str) or not value:
        raise Refused(f"MLflow: its answer has no {'.'.join(names)}; is it an MLflow server?")
    return value


def _figures(run: Run, points: Sequence[Point]) -> Iterator[Point]:
    """Those that were measured once, at the end: the others' last values are points already."""
    step = max((one.step for one in points), default=0)
    at = run.ended_at or run.started_at
    for metric in sorted(set(run.figures) - {one.metric for one in points}):
        yield Point(metric=metric, step=step, value=run.figures[metric], at=at)


def _batches(points: Sequence[Point]) -> Iterator[list[dict[str, object]]]:
    for start in range(0, len(points), _METRICS_MAX):
        yield [
            {
                "key": one.metric,
                "value": one.value,
                "step": one.step,
                "timestamp": int(one.at * 1000),
            }
            for one in points[start : start + _METRICS_MAX]
        ]


def _parameters(run: Run) -> list[dict[str, str]]:
    """Flat: MLflow has no others, and each once for ever, which the same run repeats unchanged."""
    flat = dict(_flat("", run.parameters))
    return [
        {"key": name[:_NAME_MAX], "value": value[:_VALUE_MAX]}
        for name, value in sorted(flat.items())[:_PARAMETERS_MAX]
    ]


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else str(name), inner)
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value)
