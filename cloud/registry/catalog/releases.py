"""Which releases are kept, and what a release, a retirement and a deletion change. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cloud.registry.catalog import changes as c
from cloud.registry.catalog import commands
from cloud.registry.catalog.checklist import missing
from cloud.registry.catalog.states import ENDS, Event, after
from cloud.registry.catalog.view import View
from cloud.registry.documents import Model, ModelVersion, State
from shared.errors import Conflict
from shared.trust.names import model_role

KEPT: Final = 2
"""Releases before the current one that stay: devices fall back to either."""


def release(
    command: commands.Release, model: Model, version: ModelVersion, view: View, since: float
) -> Iterator[c.Change]:
    """`since`: who was seen running a version after that runs it still. Raises `Conflict`."""
    what = f"{model.name} {version.version}"
    after(version.state, Event.RELEASED, what)
    if model.current == version.version:
        raise Conflict(f"{what} is the current release already")
    number = model.number + 1
    if command.number not in {None, number}:
        raise Conflict(
            f"{what} is signed as release {command.number}, but the next of {model.name} is "
            f"{number}; sign it anew"
        )
    if lacks := missing(
        version, model, view.evaluation(version.evaluation or ""),
        trust=view.trust(model_role(model.name), command.trust_version) is not None,
        backbone=_backbone_state(version, view),
    ):  # fmt: skip
        raise Conflict(f"{what} cannot be released: {'; '.join(lacks)}")
    yield c.Released(
        model=model.name, version=version.version, number=number, comment=command.comment,
        trust_version=command.trust_version,
    )  # fmt: skip
    others = [one for one in _released(view, model.name) if one.version != version.version]
    for old in others[KEPT:]:
        if not view.running(model.name, old.version, since):
            yield c.Retired(
                model=model.name, version=old.version, trust_version=None,
                comment=f"{KEPT} releases before the current one are kept",
                current=version.version,
            )  # fmt: skip


def retire(
    command: commands.Retire, model: Model, version: ModelVersion, view: View
) -> Iterator[c.Change]:
    """Devices may run it: retiring is how they are called back. Raises `Conflict`."""
    what = f"{model.name} {version.version}"
    after(version.state, Event.RETIRED, what)
    if view.trust(model_role(model.name), command.trust_version) is None:
        raise Conflict(
            f"{what}: version {command.trust_version} of {model_role(model.name)} is not published; "
            "publish the signed metadata that leaves it out first"
        )
    left = [one.version for one in _released(view, model.name) if one.version != version.version]
    yield c.Retired(
        model=model.name, version=version.version, comment=command.comment,
        trust_version=command.trust_version,
        current=left[0] if left else None,  # itself, where an older one is retired
    )  # fmt: skip
    yield from cancelled(view, version, "retired")


def delete(
    command: commands.Delete, model: Model, version: ModelVersion, view: View, since: float
) -> Iterator[c.Change]:
    """Raises `Conflict` for a version that somebody needs."""
    if version.deleted:
        return
    what = f"{model.name} {version.version}"
    after(version.state, Event.DELETED, what)
    assert version.state in ENDS
    if version.version in {one.version for one in kept(model, view.launched(model.name))}:
        raise Conflict(
            f"{what} is one of the {KEPT} releases before the current one, which devices fall back "
            "to; release a newer version first"
        )
    if names := view.running(model.name, version.version, since):
        raise Conflict(
            f"{what} is still run by {', '.join(names[:3])}"
            f"{f' and {len(names) - 3} more' if len(names) > 3 else ''}; move them first"
        )
    if heads := view.heads_on(model.name, version.version):
        raise Conflict(f"{what} is the backbone of {', '.join(heads[:3])}; delete these first")
    yield c.Deleted(model=model.name, version=version.version, comment=command.comment)


def kept(model: Model, launched: Sequence[ModelVersion]) -> list[ModelVersion]:
    """The current release and the `KEPT` before it, retired or not; `launched` newest first.

    Where there is no current one, the newest that was.
    """
    versions = [one.version for one in launched]
    at = versions.index(model.current) if model.current in versions else 0
    return list(launched[at : at + 1 + KEPT])


def cancelled(view: View, version: ModelVersion, why: str) -> Iterator[c.Change]:
    """End the evaluations that wait or run: nobody needs them."""
    for evaluation in view.open_evaluations(version.model, version.version):
        yield c.EvaluationEnded(
            id=evaluation.id, model=version.model, version=version.version, state="broken",
            why=f"the version was {why}",
        )  # fmt: skip


def _released(view: View, model: str) -> list[ModelVersion]:
    return [one for one in view.launched(model) if one.state is State.RELEASED]


def _backbone_state(version: ModelVersion, view: View) -> State | None:
    if (named := version.backbone) is None:
        return None
    found = view.version(named.name, named.version)
    return found.state if found is not None else None
