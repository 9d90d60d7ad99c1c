"""Run the search against a real server: a load for each rate that it wants to know about."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cloud.capacity.load import generator
from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.order import Messages
from cloud.capacity.load.outcomes import Phase, phase
from cloud.capacity.measured import Measured, TrialFigures
from cloud.capacity.message import Face
from cloud.capacity.search import Rules, Search, Trial, begin, blames_generator, keeps, step
from shared.errors import Unavailable

_SETTLE_SHARE: Final = 0.2
"""Of a trial's seconds, before them: a rate that changes meets batches of the rate before."""


@dataclass(frozen=True, slots=True)
class Measuring:
    url: str
    rows: int
    seconds: float
    connections: int
    generators: int


def measure(
    asked: Measuring, face: Face, messages: Messages, rules: Rules,
    say: Callable[[Search, Trial], None],
) -> Measured:  # fmt: skip
    """`say` hears of each trial and of the search before it.

    Raises `Malformed`, or `Unavailable` when there is no server or it answers nothing at all.
    """
    search = begin(rules)
    trials: list[TrialFigures] = []
    held_back = False
    with tempfile.TemporaryDirectory(prefix="hybridge-load-") as folder:
        while search.rate is not None:
            trial = _tried(asked, messages, search.rate, Path(folder), len(trials) + 1)
            say(search, trial)
            kept = keeps(rules, trial)
            held_back = held_back or blames_generator(rules, trial)
            trials.append(_figures(trial, kept=kept))
            search = step(rules, search, trial)
    return Measured(
        model=face.name, model_version=face.version, url=asked.url,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"), rows=asked.rows,
        seconds=asked.seconds, sla_ms=rules.sla_ms, qps_at_sla=search.kept, qps_max=search.best,
        held_back_by_generator=held_back, trials=tuple(trials),
    )  # fmt: skip


def _tried(asked: Measuring, messages: Messages, rate: float, folder: Path, number: int) -> Trial:
    settle_s = asked.seconds * _SETTLE_SHARE
    ends = settle_s + asked.seconds
    found = generator.run(
        asked.url, messages, [Stretch(rate, ends)], folder, seed=number,
        connections=asked.connections, generators=asked.generators,
    )  # fmt: skip
    seen = phase(found, settle_s, ends)
    if number == 1 and not seen.answered:
        raise Unavailable(
            f"{asked.url}: no request was answered: {seen.refused} were refused and {seen.failed} "
            "failed; ask once by hand (docs/gateway.md) and read why"
        )
    return trial_of(seen)


def trial_of(seen: Phase) -> Trial:
    """Of a phase that was one rate."""
    total = seen.answered + seen.refused + seen.failed
    return Trial(
        asked_qps=seen.asked_per_second,
        answered_qps=seen.answers_per_second,
        refused_share=(seen.refused + seen.failed) / total if total else 0.0,
        p50_ms=seen.answered_p50_ms,
        p99_ms=seen.answered_p99_ms,
        lag_ms=seen.lag_p99_ms,
    )


def _figures(trial: Trial, *, kept: bool) -> TrialFigures:
    return TrialFigures(
        asked_qps=trial.asked_qps, answered_qps=trial.answered_qps,
        refused_share=trial.refused_share, p50_ms=trial.p50_ms, p99_ms=trial.p99_ms,
        lag_ms=trial.lag_ms, kept=kept,
    )  # fmt: skip
