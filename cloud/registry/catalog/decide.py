"""What a command changes, as the catalog stands: pure. All or nothing, and what is decided is
written in the same transaction as it was looked at, so a revision or a state seen here is true.
"""

from collections.abc import Iterator
from typing import assert_never

from pydantic import ValidationError

from cloud.registry.catalog import changes as c
from cloud.registry.catalog import commands as k
from cloud.registry.catalog import evaluations, releases
from cloud.registry.catalog.bounds import (
    check_tree,
    checked_name,
    checked_version,
    is_role,
    shown,
)
from cloud.registry.catalog.settings import CatalogSettings
from cloud.registry.catalog.states import Event, after
from cloud.registry.catalog.view import View
from cloud.registry.documents import Model, ModelVersion, StoredFile
from cloud.registry.evaluation.rule_parser import parse
from shared.bundle.files import MEMBERS_MAX
from shared.config import in_words
from shared.errors import Conflict, Malformed, Overloaded, TooLarge, Unknown


def decide(
    command: k.Command, view: View, limits: CatalogSettings, actor: str, now: float
) -> list[c.Change]:
    """Empty where all is as asked already.

    Raises `Malformed`, `TooLarge`, `Unknown`, `Conflict`, `Overloaded`.
    """
    try:
        return list(_decide(command, view, limits, actor, now))
    except ValidationError as error:
        raise Malformed(f"{type(command).__name__}: {in_words(error)}") from error


def _decide(
    command: k.Command, view: View, limits: CatalogSettings, actor: str, now: float
) -> Iterator[c.Change]:
    since = now - limits.running_ttl_s
    match command:
        case k.SetModel():
            yield from _set_model(command, view, limits)
        case k.Register():
            yield from _register(command, view, limits)
        case k.AddDataSet():
            yield from _add_data_set(command, view, limits, actor, now)
        case k.QueueEvaluation():
            _, version = _known(view, command.model, command.version)
            _check_unchanged(version, command.revision)
            yield from evaluations.queue_again(command, version, view, limits)
        case k.ClaimEvaluation():
            yield from evaluations.claim(command, view, limits, now)
        case k.RenewEvaluation():
            evaluations.check_renewal(command, view)
        case k.EndEvaluation():
            yield from evaluations.end(command, view)
        case k.Approve():
            yield from _approve(command, view)
        case k.Reject():
            yield from _reject(command, view)
        case k.Release():
            model, version = _unchanged(view, command)
            yield from releases.release(command, model, version, view, since)
        case k.Retire():
            model, version = _unchanged(view, command)
            yield from releases.retire(command, model, version, view)
        case k.Delete():
            model, version = _known(view, command.model, command.version)
            if not version.deleted:  # else this is that very request, sent again
                _check_unchanged(version, command.revision)
            yield from releases.delete(command, model, version, view, since)
        case k.AddDelta():
            yield from _add_delta(command, view, limits)
        case k.PublishTrust():
            yield from _publish_trust(command, view)
        case k.Promote():
            if command.epoch <= (epoch := view.head().epoch):
                raise Conflict(f"epoch {command.epoch} is not above the present one, {epoch}")
            yield c.Promoted(epoch=command.epoch, comment=command.comment)
        case _:
            assert_never(command)


def _set_model(command: k.SetModel, view: View, limits: CatalogSettings) -> Iterator[c.Change]:
    name = checked_name(command.name, "model name")
    if command.gate is not None:
        parse(command.gate.rules)
    model = view.model(name)
    if model is None:
        if command.revision:
            raise Conflict(f"model {name} is not here, so its revision is not {command.revision}")
        if view.models_count() >= limits.models_max:
            raise Overloaded(f"there are {limits.models_max} models; raise models_max")
    elif command.revision is not None:
        _check_revision(f"model {name}", model.revision, command.revision)
    if model is not None and (
        command.owner in {None, model.owner} and command.gate in {None, model.gate}
    ):
        return
    yield c.ModelSet(model=name, owner=command.owner, gate=command.gate)


def _register(command: k.Register, view: View, limits: CatalogSettings) -> Iterator[c.Change]:
    manifest = command.manifest
    version = checked_version(manifest.version)
    what = f"{manifest.name} {version}"
    if view.model(manifest.name) is None:
        raise Unknown(f"there is no model {manifest.name}; make it first, with its owner and gate")
    if (known := view.version(manifest.name, version)) is not None:
        if known.manifest.sha256 == command.manifest_file.sha256 and not known.deleted:
            return
        raise Conflict(
            f"{what} is there already with {'its files deleted' if known.deleted else 'other content'}"
            f" (manifest {known.manifest.sha256[:12]}); a version never changes: take the next number"
        )
    _check_parent(command, view, what)
    if view.versions_count(manifest.name) >= limits.versions_max:
        raise Overloaded(f"{manifest.name} has {limits.versions_max} versions; raise versions_max")
    check_tree(manifest.lineage.hyperparameters, f"{what}: lineage.hyperparameters")
    files = {file.path: file for file in manifest.files()}
    if len(files) >= MEMBERS_MAX:
        raise TooLarge(f"{what} lists {len(files)} files; under {MEMBERS_MAX} are taken")
    yield c.Registered(
        model=manifest.name, version=version, manifest=command.manifest_file,
        files=tuple(
            StoredFile(path=one.path, sha256=one.sha256, bytes=one.bytes) for one in files.values()
        ),
        task=manifest.task, card=manifest.card.sha256, backbone=manifest.backbone,
        origin=command.origin, lineage=manifest.lineage.model_dump(mode="json"),
    )  # fmt: skip
    yield from evaluations.queue(command.evaluation_id, manifest.name, version, view, limits)


def _check_parent(command: k.Register, view: View, what: str) -> None:
    """A parent is there before its children and no version changes: so there is no longer cycle."""
    if (parent := command.origin.parent) is None:
        return
    if parent == command.manifest.version:
        raise Conflict(f"{what} names itself as its parent: its lineage would be a cycle")
    if view.version(command.manifest.name, parent) is None:
        raise Unknown(
            f"{what}: there is no {command.manifest.name} {shown(parent)}, its parent; register "
            "that first, or leave parent out"
        )


def _add_data_set(
    command: k.AddDataSet, view: View, limits: CatalogSettings, actor: str, now: float
) -> Iterator[c.Change]:
    given = command.data_set
    what = f"data set {given.name} {given.version}"
    if (known := view.data_set(given.name, given.version)) is not None:
        if known.file.sha256 == given.file.sha256:
            return
        raise Conflict(f"{what} is there already with other content; take the next number")
    newest = view.data_set(given.name, None)
    if given.version != (following := newest.version + 1 if newest is not None else 1):
        raise Conflict(f"{what}: the next version of {given.name} is {following}")
    if view.data_sets_count() >= limits.data_sets_max:
        raise Overloaded(f"there are {limits.data_sets_max} data sets; raise data_sets_max")
    yield c.DataSetAdded(data_set=given.model_copy(update={"pushed_by": actor, "pushed_at": now}))


def _approve(command: k.Approve, view: View) -> Iterator[c.Change]:
    model, version = _unchanged(view, command)
    after(version.state, Event.APPROVED, f"{version.model} {version.version}")
    if (given := version.approval) is not None and given.seq >= model.gate_revision:
        raise Conflict(f"{version.model} {version.version} was approved by {given.by} already")
    yield c.Approved(model=version.model, version=version.version, comment=command.comment)


def _reject(command: k.Reject, view: View) -> Iterator[c.Change]:
    _, version = _unchanged(view, command)
    after(version.state, Event.REJECTED, f"{version.model} {version.version}")
    yield c.Rejected(model=version.model, version=version.version, comment=command.comment)
    yield from releases.cancelled(view, version, "rejected")


def _add_delta(command: k.AddDelta, view: View, limits: CatalogSettings) -> Iterator[c.Change]:
    delta = command.delta
    if delta.from_sha256 == delta.to_sha256:
        raise Malformed("a delta leads from one file to another, not to itself")
    if (known := view.delta(delta.from_sha256, delta.to_sha256)) is not None:
        if known == delta:
            return
        raise Conflict(f"there is a delta to {delta.to_sha256[:12]} from there already")
    if view.deltas_count(delta.to_sha256) >= limits.deltas_max:
        raise Overloaded(f"{delta.to_sha256[:12]} has {limits.deltas_max} deltas; more help nobody")
    yield c.DeltaAdded(delta=delta)


def _publish_trust(command: k.PublishTrust, view: View) -> Iterator[c.Change]:
    if not is_role(command.role):
        raise Malformed(f"trust role {shown(command.role)} is none")
    what = f"version {command.version} of {command.role}"
    known = view.trust(command.role, command.version)
    if known is not None and known.file.sha256 == command.file.sha256:
        return
    newest = view.trust(command.role, None)
    last = newest.version if newest is not None else 0
    # clients walk from root to root: one that is left out would strand them
    if command.version <= last or (command.role == "root" and command.version != last + 1):
        raise Conflict(f"{what}: the newest here is {last}; sign it as {last + 1}")
    yield c.TrustPublished(role=command.role, version=command.version, file=command.file)


def _known(view: View, model: str, version: str) -> tuple[Model, ModelVersion]:
    found = view.model(model)
    if found is None:
        raise Unknown(f"there is no model {shown(model)}")
    if (wanted := view.version(model, version)) is None:
        raise Unknown(f"there is no version {shown(version)} of {model}")
    return found, wanted


def _unchanged(
    view: View, command: k.Approve | k.Reject | k.Release | k.Retire
) -> tuple[Model, ModelVersion]:
    model, version = _known(view, command.model, command.version)
    if not command.comment.strip():
        raise Malformed(f"{model.name} {version.version}: say why, in the comment")
    _check_unchanged(version, command.revision)
    return model, version


def _check_unchanged(version: ModelVersion, seen: int | None) -> None:
    if seen is not None:
        _check_revision(f"{version.model} {version.version}", version.revision, seen)


def _check_revision(what: str, present: int, asked: int) -> None:
    if present != asked:
        if asked == 0:
            raise Conflict(f"{what} is there already")
        raise Conflict(
            f"{what} has changed since: it is at revision {present}, you saw {asked}; look again"
        )
