"""Both arms' figures side by side, as the API gives them; of several processes added up. Pure."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from cloud.experiments.experiments import Running
from cloud.monitoring.stage_times import EDGES_S


class ArmReport(BaseModel):
    model_config = ConfigDict(frozen=True)

    version: str
    share: float
    calls: int
    escalations: int
    rows: int
    failed: int
    """Calls and escalations that found the arm's version and got no answer from it."""
    fell_back: int
    """Placed in this arm and answered by the model's own version, as this one was not there."""
    edge_agreed: int
    """Escalations in which the device's label was the same."""
    confidence_sum: float
    times: Annotated[tuple[int, ...], Field(min_length=len(EDGES_S) + 1)]
    """Calls and escalations by time: up to 0.1 ms, 0.25, 0.5, 1 ... 2,500 ms, and above."""
    confidence: float | None
    """Mean, of rows."""
    p50_ms: float | None
    """By the bins of `times`: the upper edge of the one it lies in. None above the last."""
    p95_ms: float | None
    edge_agreement: float | None


class ExperimentReport(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    model: str
    unplaced: int
    """Calls that named neither a user nor a device: the model's own version answered."""
    arms: tuple[ArmReport, ...]


class Reports(BaseModel):
    model_config = ConfigDict(frozen=True)

    experiments: tuple[ExperimentReport, ...]


def reports(running: Iterable[Running]) -> Reports:
    return Reports(experiments=tuple(map(_report, running)))


def together(own: Reports, others: Sequence[Reports]) -> Reports:
    """Processes of one configuration have the same experiments in the same order."""
    every = [own, *others]
    return Reports(
        experiments=tuple(
            _added([one.experiments[at] for one in every if at < len(one.experiments)])
            for at in range(len(own.experiments))
        )
    )


def _report(running: Running) -> ExperimentReport:
    settings = running.settings
    arms = tuple(
        _arm(
            version=arm.version, share=settled.share, calls=arm.calls, escalations=arm.escalations,
            rows=arm.rows, failed=arm.failed, fell_back=arm.fell_back, edge_agreed=arm.edge_agreed,
            confidence_sum=arm.confidence_sum, times=tuple(arm.time.counts),
        )
        for arm, settled in zip(running.arms, settings.arms, strict=True)
    )  # fmt: skip
    return ExperimentReport(
        name=settings.name, model=settings.model, unplaced=running.unplaced, arms=arms
    )


def _added(same: Sequence[ExperimentReport]) -> ExperimentReport:
    arms = tuple(
        _arm(
            version=parts[0].version, share=parts[0].share,
            calls=sum(p.calls for p in parts), escalations=sum(p.escalations for p in parts),
            rows=sum(p.rows for p in parts), failed=sum(p.failed for p in parts),
            fell_back=sum(p.fell_back for p in parts),
            edge_agreed=sum(p.edge_agreed for p in parts),
            confidence_sum=sum(p.confidence_sum for p in parts),
            times=tuple(map(sum, zip(*(p.times for p in parts), strict=True))),
        )
        for parts in zip(*(one.arms for one in same), strict=True)
    )  # fmt: skip
    first = same[0]
    return ExperimentReport(
        name=first.name, model=first.model, unplaced=sum(one.unplaced for one in same),
        arms=arms,
    )  # fmt: skip


def _arm(
    *, version: str, share: float, calls: int, escalations: int, rows: int, failed: int,
    fell_back: int, edge_agreed: int, confidence_sum: float, times: tuple[int, ...],
) -> ArmReport:  # fmt: skip
    return ArmReport(
        version=version, share=share, calls=calls, escalations=escalations, rows=rows,
        failed=failed, fell_back=fell_back, edge_agreed=edge_agreed, confidence_sum=confidence_sum,
        times=times, confidence=confidence_sum / rows if rows else None,
        p50_ms=_quantile_ms(times, 0.5), p95_ms=_quantile_ms(times, 0.95),
        edge_agreement=edge_agreed / escalations if escalations else None,
    )  # fmt: skip


def _quantile_ms(times: Sequence[int], q: float) -> float | None:
    left = q * sum(times)
    for edge_s, count in zip(EDGES_S, times, strict=False):
        left -= count
        if count and left <= 0:
            return edge_s * 1e3
    return None
