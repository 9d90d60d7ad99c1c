"""Alarms as they open and close: their names, words and commands. Pure."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from cloud.monitoring.drift import runbook
from cloud.monitoring.drift.documents import (
    Accuracy,
    Alarm,
    Cause,
    FeatureDrift,
    Kind,
    Scope,
)
from cloud.monitoring.drift.evidence import Evidence
from cloud.monitoring.drift.tracks import named


@dataclass(frozen=True, slots=True)
class Opened:
    alarm: Alarm


@dataclass(frozen=True, slots=True)
class Closed:
    alarm: Alarm
    why: str


def alarm_id(kind: Kind, scope: Scope, now: float) -> str:
    """The same for the same alarm, whoever opens it: one that was stored is not stored twice."""
    text = f"{scope.kind} {scope.name} {scope.model} {scope.version}"
    return f"{kind.value}-{hashlib.sha256(text.encode()).hexdigest()[:12]}-{int(now)}"


def by_evidence(kind: Kind, scope: Scope, cause: Cause, seen: Evidence, now: float) -> Alarm:
    """Of inputs, answers or missing ones."""
    features = seen.features_of(kind)
    devices = (scope.name,) if scope.kind == "device" else seen.members.that_drift(kind)
    return _made(
        kind, scope, cause, now, features=features,
        devices=() if scope.kind == "fleet" else devices, samples=seen.samples,
        words=runbook.words(
            kind, scope, features, samples=seen.samples, missing=seen.missing_share,
            devices=0 if scope.kind == "fleet" else len(devices),
        ),
    )  # fmt: skip


def by_silence(scope: Scope, silent: Iterable[str], cause: Cause, now: float) -> Alarm:
    devices = sorted(silent)
    words = runbook.words(Kind.STALE, scope, devices=len(devices))
    return _made(Kind.STALE, scope, cause, now, devices=devices, words=words)


def by_audits(scope: Scope, cause: Cause, accuracy: Accuracy, now: float) -> Alarm:
    words = runbook.words(Kind.ACCURACY, scope, accuracy=accuracy)
    return _made(
        Kind.ACCURACY, scope, cause, now, accuracy=accuracy, words=words, samples=accuracy.samples
    )


def closed(alarm: Alarm, why: str, now: float) -> Closed:
    return Closed(alarm.model_copy(update={"closed_at": now}), why)


def _made(
    kind: Kind, scope: Scope, cause: Cause, now: float, *, words: str,
    features: tuple[FeatureDrift, ...] = (), accuracy: Accuracy | None = None,
    devices: Iterable[str] = (), samples: int = 0,
) -> Alarm:  # fmt: skip
    every = tuple(devices)
    return Alarm(
        id=alarm_id(kind, scope, now), kind=kind, scope=scope, cause=cause, features=features,
        accuracy=accuracy, devices=named(every), devices_count=len(every), samples=samples,
        words=words[:1000], runbook=runbook.advice(kind, cause),
        command=runbook.command(kind, cause, scope, sorted(every)), opened_at=now,
    )  # fmt: skip
