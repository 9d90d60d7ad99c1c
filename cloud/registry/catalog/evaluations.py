"""The queue of evaluations: who may claim one, and who may still end it. Pure."""

from collections.abc import Iterator
from typing import Final

from cloud.registry.catalog import changes as c
from cloud.registry.catalog import commands
from cloud.registry.catalog.bounds import is_id, shown
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.catalog.states import EVALUABLE
from cloud.registry.catalog.view import View
from cloud.registry.documents import Evaluation, ModelVersion
from shared.errors import Conflict, Malformed, Overloaded, Unknown

LEASE_S_MAX: Final = 6 * 3600.0
"""A longer lease would keep a version waiting for a dead evaluator; also what bounds the harm of a
clock that was set back."""


def queue(
    evaluation_id: str, model: str, version: str, view: View, limits: CatalogSettings
) -> Iterator[c.Change]:
    """Raises `Malformed`, `Conflict`, `Overloaded`."""
    if not is_id(evaluation_id):
        raise Malformed(f"evaluation id {shown(evaluation_id)} is not a UUID")
    if view.evaluation(evaluation_id) is not None:
        raise Conflict(f"there is an evaluation {evaluation_id} already; use a new id")
    if view.open_evaluations_count() >= limits.evaluations_open_max:
        raise Overloaded(
            f"{limits.evaluations_open_max} evaluations wait or run; try again when some have "
            "ended, or start another evaluator"
        )
    yield c.EvaluationQueued(id=evaluation_id, model=model, version=version)


def queue_again(
    command: commands.QueueEvaluation, version: ModelVersion, view: View, limits: CatalogSettings
) -> Iterator[c.Change]:
    """Raises `Malformed`, `Conflict`, `Overloaded`."""
    what = f"{version.model} {version.version}"
    if version.state not in EVALUABLE:
        raise Conflict(f"{what} is {version.state}: {version.why}; register a new version")
    if waiting := view.open_evaluations(version.model, version.version):
        raise Conflict(f"{what} has evaluation {waiting[0].id} {waiting[0].state} already")
    yield from queue(command.evaluation_id, version.model, version.version, view, limits)


def claim(
    command: commands.ClaimEvaluation, view: View, limits: CatalogSettings, now: float
) -> Iterator[c.Change]:
    """Nothing where nothing waits. Raises `Malformed` for a lease out of bounds."""
    _check_lease(command.lease_s)
    for evaluation in view.waiting_evaluations(now, LEASE_S_MAX):
        if evaluation.attempts < limits.attempts_max:
            yield c.EvaluationClaimed(
                id=evaluation.id, model=evaluation.model, version=evaluation.version,
                evaluator=command.evaluator, lease_until=now + command.lease_s,
            )  # fmt: skip
            return
        yield c.EvaluationEnded(
            id=evaluation.id, model=evaluation.model, version=evaluation.version, state="broken",
            why=f"{evaluation.attempts} evaluators began it and none ended it; the last was "
            f"{evaluation.evaluator}: see its log",
        )  # fmt: skip


def check_renewal(command: commands.RenewEvaluation, view: View) -> None:
    """Raises `Malformed`, `Unknown`; `Conflict` for whose claim is over."""
    _check_lease(command.lease_s)
    _claimed(view, command.evaluation_id, command.evaluator, command.attempts)


def end(command: commands.EndEvaluation, view: View) -> Iterator[c.Change]:
    """Raises `Unknown`; `Conflict` for whose claim is over; `Malformed` for what says it passed
    and does not show it.
    """
    found = command.evaluation
    known = _claimed(view, found.id, found.evaluator, found.attempts)
    hardware = command.hardware or found.hardware
    if found.state not in {"passed", "failed", "broken"}:
        raise Malformed(f"evaluation {known.id} cannot end as {found.state!r}")
    if found.state == "passed":
        if hardware is None or not found.metrics:
            raise Malformed(f"evaluation {known.id} passed without hardware or metrics")
        if broken := [rule.rule for rule in found.rules if not rule.holds]:
            raise Malformed(f"evaluation {known.id} passed, but {shown(broken[0])} does not hold")
    yield c.EvaluationEnded(
        id=known.id, model=known.model, version=known.version, state=found.state,
        why=found.why, hardware=hardware, data_set=found.data_set, metrics=found.metrics,
        current=found.current, current_metrics=found.current_metrics, rules=found.rules,
        report_json=found.report_json, report_html=found.report_html,
    )  # fmt: skip


def _claimed(view: View, evaluation_id: str, evaluator: str | None, attempts: int) -> Evaluation:
    known = view.evaluation(evaluation_id)
    if known is None:
        raise Unknown(f"there is no evaluation {shown(evaluation_id)}")
    if known.state != "running":
        raise Conflict(f"evaluation {known.id} is {known.state} ({known.why}); stop with it")
    if (known.evaluator, known.attempts) != (evaluator, attempts):
        raise Conflict(
            f"evaluation {known.id} was taken over by {known.evaluator} (claim {known.attempts}) when "
            f"the lease of claim {attempts} was over; stop with it"
        )
    return known


def _check_lease(lease_s: float) -> None:
    if not 0 < lease_s <= LEASE_S_MAX:
        raise Malformed(f"lease_s is {lease_s}; use above 0, at most {LEASE_S_MAX:g}")
