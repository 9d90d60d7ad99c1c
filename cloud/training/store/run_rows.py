"""Runs, their points, log lines and artifacts as rows; each run's are bounded as they are written."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from cloud.store.upsert import upsert
from cloud.training.documents import Artifact, LogLine, Point, Run
from cloud.training.store import schema as s

_R: Final = s.runs.c
_P: Final = s.points.c
_L: Final = s.logs.c
_A: Final = s.artifacts.c


def begin(connection: Connection, run: Run) -> None:
    """Of a later attempt: what the job was first told, when it began and what was measured stay."""
    query = select(_R.parameters, _R.started_at, _R.figures).where(_R.job == run.id)
    there = connection.execute(query).one_or_none()
    parameters, started_at, figures = (
        (json.dumps(run.parameters, sort_keys=True), run.started_at, dict[str, float]())
        if there is None
        else (there.parameters, there.started_at, json.loads(there.figures))
    )
    upsert(connection, s.runs, [{
        "job": run.id, "parameters": parameters, "data_set": run.data_set,
        "code_version": run.code_version[:200], "machine": run.machine[:500],
        "started_at": started_at, "ended_at": None,
        "figures": json.dumps({**figures, **run.figures}, sort_keys=True),
    }])  # fmt: skip


def end(connection: Connection, job: str, ended_at: float) -> None:
    """Its job is over; where it never began there is none."""
    connection.execute(s.runs.update().where(_R.job == job).values(ended_at=ended_at))


def update_figures(connection: Connection, job: str, figures: Mapping[str, float]) -> None:
    """The last value of each; others stay."""
    if not figures:
        return
    text = connection.execute(select(_R.figures).where(_R.job == job)).scalar()
    if text is None:
        return
    merged = json.dumps({**json.loads(text), **figures}, sort_keys=True)
    connection.execute(s.runs.update().where(_R.job == job).values(figures=merged))


def run_of(connection: Connection, job: str) -> Run | None:
    found = connection.execute(select(s.runs).where(_R.job == job)).one_or_none()
    if found is None:
        return None
    kept = connection.execute(select(s.artifacts).where(_A.job == job).order_by(_A.name))
    return Run(
        id=job, parameters=json.loads(found.parameters), data_set=found.data_set,
        code_version=found.code_version, machine=found.machine, started_at=found.started_at,
        ended_at=found.ended_at, figures=json.loads(found.figures),
        artifacts=tuple(Artifact(name=a.name, sha256=a.sha256, bytes=a.bytes) for a in kept),
    )  # fmt: skip


def with_runs(connection: Connection, jobs: Sequence[str]) -> frozenset[str]:
    """Those of them that have one."""
    return frozenset(connection.execute(select(_R.job).where(_R.job.in_(jobs))).scalars())


def add_artifacts(connection: Connection, job: str, artifacts: Sequence[Artifact]) -> None:
    upsert(connection, s.artifacts, [
        {"job": job, "name": one.name, "sha256": one.sha256, "bytes": one.bytes}
        for one in artifacts
    ])  # fmt: skip


def artifact(connection: Connection, job: str, name: str) -> Artifact | None:
    query = select(s.artifacts).where(_A.job == job, _A.name == name)
    found = connection.execute(query).one_or_none()
    if found is None:
        return None
    return Artifact(name=found.name, sha256=found.sha256, bytes=found.bytes)


def add_points(connection: Connection, job: str, new: Sequence[Point], points_max: int) -> None:
    """A step that was measured before is measured anew: the job went on from a checkpoint."""
    upsert(connection, s.points, [
        {"job": job, "metric": one.metric, "step": one.step, "value": one.value, "at": one.at}
        for one in {(one.metric, one.step): one for one in new}.values()
    ])  # fmt: skip
    if new:
        for metric in sorted({one.metric for one in new}):
            _thin(connection, job, metric, points_max)


def _thin(connection: Connection, job: str, metric: str, points_max: int) -> None:
    """Every second one goes, the newest stays."""
    of_it = (_P.job == job, _P.metric == metric)
    query = select(_P.step).where(*of_it).order_by(_P.step)
    steps = list(connection.execute(query).scalars())
    while len(steps) > points_max:
        goes, steps = steps[-2::-2], steps[-1::-2][::-1]
        for start in range(0, len(goes), 500):
            part = goes[start : start + 500]
            connection.execute(delete(s.points).where(*of_it, _P.step.in_(part)))


def points(
    connection: Connection, job: str, metric: str | None, after: int, limit: int
) -> list[Point]:
    """Of steps after `after`, rising: `limit`, and what else is of the last one's step."""
    wanted = [_P.job == job, _P.step > after]
    if metric is not None:
        wanted.append(_P.metric == metric)
    last = connection.execute(
        select(_P.step).where(*wanted).order_by(_P.step).offset(limit - 1).limit(1)
    ).scalar()
    if last is not None:
        wanted.append(_P.step <= last)
    query = select(_P.metric, _P.step, _P.value, _P.at).where(*wanted)
    return [
        Point(metric=one.metric, step=one.step, value=one.value, at=one.at)
        for one in connection.execute(query.order_by(_P.step, _P.metric))
    ]


def add_logs(
    connection: Connection, job: str, lines: Sequence[tuple[float, str]], lines_max: int
) -> None:
    """When each was said, and what."""
    if not lines:
        return
    last = connection.execute(select(func.max(_L.seq)).where(_L.job == job)).scalar() or 0
    connection.execute(insert(s.logs), [
        {"job": job, "seq": last + number, "at": at, "text": text[:2000]}
        for number, (at, text) in enumerate(lines, 1)
    ])  # fmt: skip
    connection.execute(delete(s.logs).where(_L.job == job, _L.seq <= last + len(lines) - lines_max))


def logs(connection: Connection, job: str, after: int, limit: int) -> list[LogLine]:
    query = select(_L.seq, _L.at, _L.text).where(_L.job == job, _L.seq > after)
    return [
        LogLine(seq=one.seq, at=one.at, text=one.text)
        for one in connection.execute(query.order_by(_L.seq).limit(limit))
    ]
