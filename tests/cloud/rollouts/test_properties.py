"""What nobody thought of: devices and operators that do anything, in any order, with restarts."""

from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.events import (
    Came,
    Changes,
    Event,
    Measured,
    Removed,
    Reported,
    Restore,
    Returned,
    SetBaseline,
    Ticked,
    Told,
    Went,
)
from cloud.rollouts.machine import Rollout
from cloud.rollouts.stages import FAILED
from shared.errors import Conflict
from shared.fleet.reported import DevicePhase, ReportedModel
from shared.fleet.telemetry import Shadow, Tally, Telemetry
from tests.cloud.rollouts.acting import NEW, OLD, SHA, spec, targets

COUNT = 6
DEVICES = [one.device for one in targets(COUNT)]
device = st.sampled_from([*DEVICES, "stranger"])
small = st.integers(0, 12)
version = st.sampled_from([OLD, NEW, "0.9.0"])


@st.composite
def reports(draw: st.DrawFn) -> Event:
    named = draw(version)
    report = ReportedModel(
        sequence=draw(small), at=draw(st.floats(-1e12, 1e12)),
        rollout=draw(st.sampled_from(["r1", "r2", None])), attempt=draw(st.integers(0, 3)),
        phase=draw(st.sampled_from(list(DevicePhase))), model=draw(st.sampled_from(["cam", "mic"])),
        version=named, manifest_sha256=draw(st.sampled_from([SHA.get(named, "d" * 64), "c" * 64])),
        candidate=draw(st.none() | version), golden_failed=draw(st.booleans()),
    )  # fmt: skip
    return Reported(draw(device), report)


@st.composite
def measurements(draw: st.DrawFn) -> Event:
    samples = draw(st.integers(0, 300))
    tally = Tally(
        model="cam", version=draw(version), started=draw(st.integers(0, 2)), samples=samples,
        escalated=draw(st.integers(0, samples)), failed=draw(st.integers(0, 400)),
        latency=(draw(small),) * 32, confidence=((draw(small),) * 10,) * draw(st.integers(0, 3)),
    )  # fmt: skip
    shadow = Shadow(version=draw(version), samples=draw(small), both_right=draw(small))
    telemetry = Telemetry(
        boot=draw(st.sampled_from(["0" * 16, "1" * 16])), sequence=draw(small), at=0.0,
        uptime_s=draw(st.floats(0, 1e10)), interval_s=30, tally=tally,
        shadow=draw(st.none() | st.just(shadow)),
    )  # fmt: skip
    return Measured(draw(device), telemetry)


told = st.builds(
    Told,
    st.sampled_from(["start", "pause", "resume", "approve", "skip", "abort", "undo", "retry"]),
    st.just("ann"),
)
events = st.one_of(
    reports(), reports(), measurements(), st.just(Ticked()), st.just(Ticked()), told,
    st.builds(Came, device), st.builds(Went, device), st.builds(Returned, device),
    st.builds(Removed, device, st.just("revoked")),
)  # fmt: skip
runs = st.lists(st.tuples(events, st.sampled_from([0.0, 1.0, 30.0, 400.0, 4000.0])), max_size=40)
SPECS = [
    spec(canary=0.3, samples_min=1, done_samples=1, criteria=("silent <= 0.9",)),
    spec(canary=0.3, shadow_s=600, shadow_samples=1, samples_min=1, done_samples=1),
    spec(canary=0.5, criteria=(), wave_s=1, watch_s=1, samples_min=1, done_samples=1),
]


def started(made: int) -> Rollout:
    rollout = Rollout.plan_new("r1", SPECS[made], targets(COUNT), "ann", 0.0)
    rollout.step(Told("start", "ann"), 1.0)
    return rollout


def restored(rollout: Rollout) -> Rollout:
    return Rollout.from_record(
        rollout.to_record(), [rollout.device_record(one) for one in reversed(DEVICES)]
    )


def phases(rollout: Rollout) -> dict[str, Phase]:
    return {one.device: one.phase for one in rollout.devices()}


@pytest.mark.parametrize("made", range(len(SPECS)))
@given(runs)
@example([(Removed("d000", "revoked"), 1.0), (Came("d002"), 0.0), (Returned("d000"), 0.0)])
@settings(max_examples=60, deadline=None)
def test_whatever_comes_it_keeps_its_promises(made: int, run: Iterable[tuple[Event, float]]):
    plain, again = started(made), started(made)
    order = [one.device for one in plain.devices()]
    attempts = dict.fromkeys(DEVICES, 1)
    now = 1.0
    for event, passes in run:
        now += passes
        before, status = phases(plain), plain.status
        changes = plain.step(event, now)
        assert again.step(event, now) == changes, "restored between any two steps"
        again = restored(again)
        assert again.to_record() == plain.to_record()
        after = phases(plain)
        assert [one.device for one in plain.devices()] == order, "cohorts never change"
        check_changes(changes, before, after)
        for name in DEVICES:
            check_device(plain, name, before[name], after[name], attempts)
        check_status(plain, changes, status)


def check_changes(changes: Changes, before: dict[str, Phase], after: dict[str, Phase]) -> None:
    moved = {name for name in DEVICES if before[name] is not after[name]}
    assert moved <= set(changes.devices), "the store hears of every change"


def check_device(
    rollout: Rollout, name: str, before: Phase, after: Phase, attempts: dict[str, int]
) -> None:
    found = rollout.device(name)
    assert found is not None
    if before in FAILED and after is not before and after is not Phase.UNDOING:
        heard = before is Phase.SILENT and after in (
            Phase.COMMITTED, Phase.DONE, Phase.ROLLED_BACK, Phase.FAILED,
        )  # fmt: skip
        back = before is Phase.TIMED_OUT and after is Phase.UNDONE
        assert heard or back or found.attempt > attempts[name], (before, after)
    attempts[name] = found.attempt


def check_status(rollout: Rollout, changes: Changes, before: RolloutStatus) -> None:
    ended = {RolloutStatus.SUCCEEDED, RolloutStatus.ROLLED_BACK}
    if before in ended:
        assert rollout.status is before, "an end is an end"
        assert not any(isinstance(one, SetBaseline | Restore) for one in changes.commands)
    if SetBaseline() in changes.commands:
        assert rollout.status is RolloutStatus.SUCCEEDED
        under_way = set(Phase) - FAILED - {Phase.DONE, Phase.COMMITTED, Phase.LEFT}
        assert not under_way & set(phases(rollout).values())
    if rollout.status is RolloutStatus.ROLLED_BACK:
        assert Phase.UNDOING not in phases(rollout).values()
    view = rollout.view(0.0)
    assert sum(view.phases.values()) == COUNT


@pytest.mark.parametrize("made", range(len(SPECS)))
@given(runs)
@settings(max_examples=60, deadline=None)
def test_a_copy_of_what_a_device_sends_changes_nothing(
    made: int, run: Iterable[tuple[Event, float]]
):
    rollout = started(made)
    now = 1.0
    for event, passes in run:
        now += passes
        rollout.step(event, now)
        if isinstance(event, Reported | Measured | Removed):
            record, before = rollout.to_record(), phases(rollout)
            assert not rollout.step(event, now).commands
            assert rollout.to_record() == record
            assert phases(rollout) == before


@given(runs)
@settings(max_examples=60, deadline=None)
def test_a_command_that_is_let_through_is_obeyed_and_another_one_changes_nothing(
    run: Iterable[tuple[Event, float]],
):
    rollout = started(0)
    now = 1.0
    for event, passes in run:
        now += passes
        if isinstance(event, Told):
            revision = rollout.revision
            try:
                rollout.check(event, now)
            except Conflict:
                rollout.step(event, now)
                assert rollout.revision == revision
                continue
            rollout.step(event, now)
            assert rollout.revision == revision + 1
        else:
            rollout.step(event, now)
