"""What the tables hold after an entry of the log: pure, and the same at home and at a replica."""

from typing import Any, assert_never, cast

from cloud.registry.catalog import changes as c
from cloud.registry.catalog.states import Event, after
from cloud.registry.catalog.view import View
from cloud.registry.documents import (
    Approval,
    Entry,
    Evaluation,
    Gate,
    LaunchRecord,
    Model,
    ModelVersion,
    State,
)
from shared.errors import Conflict

Row = Model | ModelVersion | Evaluation | c.DataSetAdded | c.DeltaAdded | c.TrustPublished
"""What the tables hold, whole, by its key."""

_Known = (
    c.ModelSet | c.Registered | c.Approved | c.Rejected | c.Released | c.Retired | c.Deleted
    | c.EvaluationQueued | c.EvaluationClaimed | c.EvaluationEnded | c.DataSetAdded | c.DeltaAdded
    | c.TrustPublished | c.Promoted
)  # fmt: skip


def project(entry: Entry, view: View) -> list[Row]:
    """Give the rows that are new or other, as `view` holds what came before.

    Raises `Malformed` for an unknown kind; `Conflict` where the state does not allow it.
    """
    change = cast("_Known", c.change_of(entry))
    match change:
        case c.ModelSet():
            return [_set(entry, change, view.model(change.model))]
        case c.Registered():
            return [_registered(entry, change)]
        case c.Approved():
            approval = Approval(at=entry.at, by=entry.actor, comment=change.comment, seq=entry.seq)
            return [
                _moved(entry, change, view, Event.APPROVED, "approved", approval=approval),
            ]
        case c.Rejected():
            return [_moved(entry, change, view, Event.REJECTED, f"rejected: {change.comment}")]
        case c.Released():
            return _released(entry, change, view)
        case c.Retired():
            return _retired(entry, change, view)
        case c.Deleted():
            return [_moved(entry, change, view, Event.DELETED, None, deleted=True)]
        case c.EvaluationQueued():
            return [_queued(entry, change)]
        case c.EvaluationClaimed():
            return _claimed(entry, change, view)
        case c.EvaluationEnded():
            return _ended(entry, change, view)
        case c.DataSetAdded() | c.DeltaAdded() | c.TrustPublished():
            return [change]
        case c.Promoted():
            return []
    assert_never(change)


def _set(entry: Entry, change: c.ModelSet, model: Model | None) -> Model:
    if model is None:
        return Model(
            name=change.model, owner=change.owner or entry.actor, gate=change.gate or Gate(),
            gate_revision=entry.seq, created_at=entry.at, revision=entry.seq,
        )  # fmt: skip
    update: dict[str, Any] = {"revision": entry.seq}
    if change.owner is not None:
        update["owner"] = change.owner
    if change.gate is not None:
        update |= {"gate": change.gate, "gate_revision": entry.seq}
    return model.model_copy(update=update)


def _registered(entry: Entry, change: c.Registered) -> ModelVersion:
    return ModelVersion(
        model=change.model, version=change.version, state=State.TRAINED, why="registered",
        manifest=change.manifest, files=change.files, task=change.task, card=change.card,
        origin=change.origin, lineage=change.lineage, backbone=change.backbone,
        pushed_by=entry.actor, pushed_at=entry.at, revision=entry.seq,
    )  # fmt: skip


def _moved(
    entry: Entry,
    change: c.OfVersion,
    view: View,
    event: Event,
    why: str | None,
    **update: Any,
) -> ModelVersion:
    version = _version(view, change.model, change.version)
    state = after(version.state, event, f"{change.model} {change.version}")
    if why is not None:
        update["why"] = why[:2000]
    return version.model_copy(update={**update, "state": state, "revision": entry.seq})


def _released(entry: Entry, change: c.Released, view: View) -> list[Row]:
    version = _version(view, change.model, change.version)
    launch = LaunchRecord(
        number=change.number, at=entry.at, by=entry.actor, comment=change.comment,
        trust_version=change.trust_version,
    )  # fmt: skip
    moved = _moved(
        entry, change, view, Event.RELEASED, f"release {change.number}",
        launches=(*version.launches, launch),
    )  # fmt: skip
    model = _model(view, change.model).model_copy(
        update={"current": change.version, "number": change.number, "revision": entry.seq}
    )
    return [moved, model]


def _retired(entry: Entry, change: c.Retired, view: View) -> list[Row]:
    moved = _moved(entry, change, view, Event.RETIRED, f"retired: {change.comment}")
    model = _model(view, change.model)
    if model.current == change.current:
        return [moved]
    return [
        moved, model.model_copy(update={"current": change.current, "revision": entry.seq})
    ]  # fmt: skip


def _queued(entry: Entry, change: c.EvaluationQueued) -> Evaluation:
    return Evaluation(
        id=change.id, model=change.model, version=change.version, state="queued",
        queued_at=entry.at, queued_by=entry.actor,
    )  # fmt: skip


def _claimed(entry: Entry, change: c.EvaluationClaimed, view: View) -> list[Row]:
    evaluation = _evaluation(view, change.id)
    running = evaluation.model_copy(
        update={
            "state": "running", "started_at": entry.at, "evaluator": change.evaluator,
            "attempts": evaluation.attempts + 1, "lease_until": change.lease_until,
            "started_seq": entry.seq,
        }
    )  # fmt: skip
    version = _version(view, change.model, change.version)
    if version.state is not State.TRAINED:
        return [running]
    return [running, _moved(entry, change, view, Event.CLAIMED, f"measured by {change.evaluator}")]


def _ended(entry: Entry, change: c.EvaluationEnded, view: View) -> list[Row]:
    found = change.model_dump(exclude={"id", "model", "version"})
    ended = Evaluation.model_validate({
        **_evaluation(view, change.id).model_dump(),
        **found, "ended_at": entry.at, "lease_until": None,
    })  # fmt: skip
    version = _version(view, change.model, change.version)
    event = Event(change.state)
    update = {} if event is Event.BROKEN else {"evaluation": change.id}
    why = change.why if version.state in {State.TRAINED, State.EVALUATING} else None
    if version.state in {State.RETIRED, State.REJECTED}:
        return [ended]
    return [ended, _moved(entry, change, view, event, why, **update)]


def _model(view: View, name: str) -> Model:
    if (model := view.model(name)) is None:
        raise Conflict(f"the log changes model {name} before it makes it")
    return model


def _version(view: View, model: str, version: str) -> ModelVersion:
    if (found := view.version(model, version)) is None:
        raise Conflict(f"the log changes {model} {version} before it is registered")
    return found


def _evaluation(view: View, evaluation_id: str) -> Evaluation:
    if (found := view.evaluation(evaluation_id)) is None:
        raise Conflict(f"the log changes evaluation {evaluation_id} before it is queued")
    return found
