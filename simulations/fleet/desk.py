"""From what rollouts command to what devices should have: generations, and what no rollout holds."""

from cloud.fleet.desired_state import Situation, ordered, settled
from cloud.fleet.documents import Baseline, Profile
from cloud.fleet.driving.commands import order, restored
from cloud.rollouts.documents import ModelSubject
from cloud.rollouts.events import Order, Restore
from cloud.rollouts.machine import Rollout
from shared.errors import Unknown
from shared.fleet.desired import DesiredModel
from shared.fleet.reported import ReportedModel
from simulations.fleet.models import MODEL
from simulations.fleet.store import Store, Writes


def report_of(store: Store, writes: Writes, device: str) -> ReportedModel | None:
    return writes.reported.get(device) or store.row(device).reported


def desired_of(store: Store, writes: Writes, device: str) -> DesiredModel | None:
    return writes.desired.get(device) or store.row(device).desired


def command(store: Store, writes: Writes, rollout: Rollout, said: Order | Restore) -> None:
    """Put what a rollout commands for a device among the writes, with its generation."""
    if isinstance(said, Order):
        wanted = order(said, rollout.id, rollout.spec, None)
    else:
        one, target = rollout.device(said.device), rollout.target(said.device)
        assert one is not None
        assert target is not None
        found = restored(
            said, rollout.id, rollout.spec, one, target.before_sha256, store.group, _no_profile
        )
        assert found is not None, "every device had a version before"
        wanted = found
    assert isinstance(wanted, DesiredModel)
    report = report_of(store, writes, said.device)
    document = ordered(
        desired_of(store, writes, said.device), wanted, 0 if report is None else report.generation
    )
    if document is not None:
        writes.desired[said.device] = document


def succeed(rollout: Rollout, writes: Writes) -> None:
    """Its group has the rollout's subject from now on."""
    subject = rollout.spec.subject
    assert isinstance(subject, ModelSubject)
    writes.baseline = Baseline(version=subject.version, manifest_sha256=subject.manifest_sha256)


def settle(store: Store, writes: Writes, device: str, *, held: bool) -> None:
    """Give a device what its group has, unless a rollout holds it."""
    group = store.group
    if writes.baseline is not None:
        group = group.model_copy(update={"models": {MODEL: writes.baseline}})
    report = report_of(store, writes, device)
    situation = Situation(
        group=group,
        profile=None,
        model=None if report is None else report.model,
        desired_model=desired_of(store, writes, device),
        seen_model=0 if report is None else report.generation,
        held=frozenset({"model"}) if held else frozenset(),
    )
    for document in settled(situation):
        assert isinstance(document, DesiredModel)
        writes.desired[device] = document


def _no_profile(name: str, version: int) -> Profile:
    raise Unknown(f"profile {name} {version}: the simulation rolls out models alone")
