"""Devices that lie, repeat, reorder, report the future, and flood."""

import pytest

from cloud.rollouts.arms import SHADOW_FLOOR, SHARE_FLOOR, SHARE_TIMES
from cloud.rollouts.collector import AHEAD_MAX, BURST, RATE_MAX
from cloud.rollouts.documents import Phase
from cloud.rollouts.events import Measured, Note, Reported, Ticked
from cloud.rollouts.meter import COUNTS, ESCALATED, SAMPLES
from shared.fleet.reported import DevicePhase
from shared.fleet.telemetry import CONFIDENCE_BINS, LATENCY_BINS, Shadow, Tally, Telemetry
from tests.cloud.rollouts.acting import NEW, OLD, SHA, Stage

BOOT, NEXT_BOOT = "0" * 16, "1" * 16


def telemetry(
    sequence: int, samples: int, version: str = NEW, *, boot: str = BOOT, started: int = 1,
    uptime_s: float = 1000.0, **counts: int,
) -> Telemetry:  # fmt: skip
    return Telemetry(
        boot=boot, sequence=sequence, at=0.0, uptime_s=uptime_s, interval_s=30,
        tally=Tally(model="cam", version=version, started=started, samples=samples, **counts),
    )  # fmt: skip


@pytest.fixture
def stage() -> Stage:
    """One device of five has committed, a moment ago."""
    stage = Stage(5, canary=0.2, done_samples=100_000)
    stage.tell("start")
    stage.step(Ticked())
    stage.now += 1
    commit(stage)
    stage.now += 10
    return stage


def canary(stage: Stage) -> str:
    return stage.in_order()[0]


def commit(stage: Stage) -> None:
    actor = stage.actors[canary(stage)]
    new = {"version": NEW, "manifest_sha256": SHA[NEW]}
    stage.step(Reported(actor.name, actor.report(DevicePhase.COMMITTED, **new)))


def counted(stage: Stage, *reports: Telemetry, device: str = "") -> int:
    for one in reports:
        stage.step(Measured(device or canary(stage), one))
    return stage.rollout._run.evidence.cohort[SAMPLES]


def control(stage: Stage) -> int:
    return stage.rollout._run.evidence.control[SAMPLES]


def test_a_report_counts_once_however_often_it_comes(stage: Stage):
    one = telemetry(5, 100)
    assert counted(stage, one, one, one) == 100


def test_a_lost_report_is_made_up_for_by_the_next(stage: Stage):
    assert counted(stage, telemetry(5, 100), telemetry(9, 500)) == 500


def test_a_late_report_takes_nothing_away_and_adds_nothing(stage: Stage):
    assert counted(stage, telemetry(9, 500), telemetry(5, 100), telemetry(10, 600)) == 600


def test_counts_that_fall_are_no_evidence(stage: Stage):
    assert counted(stage, telemetry(5, 500), telemetry(6, 100), telemetry(7, 150)) == 550


def test_a_new_life_counts_from_nothing_and_the_old_one_is_over(stage: Stage):
    reports = [
        telemetry(5, 100),
        telemetry(0, 30, boot=NEXT_BOOT, started=0),
        telemetry(6, 900),  # late, from the life before
        telemetry(1, 40, boot=NEXT_BOOT, started=0),
    ]
    assert counted(stage, *reports) == 140


def test_a_tally_that_is_over_is_late(stage: Stage):
    reports = [telemetry(5, 100, started=3), telemetry(6, 900, started=2)]
    assert counted(stage, *reports) == 100


def test_a_number_from_the_future_does_not_silence_what_follows(stage: Stage):
    reports = [telemetry(5, 100), telemetry(2**53, 200), telemetry(6, 300)]
    assert counted(stage, *reports) == 300


def test_some_reports_may_be_missing(stage: Stage):
    assert counted(stage, telemetry(5, 100), telemetry(5 + AHEAD_MAX, 200)) == 200


def test_more_than_a_device_can_do_is_capped_and_the_device_named(stage: Stage):
    changes = stage.rollout.step(Measured(canary(stage), telemetry(5, 10**9)), stage.now)
    assert counted(stage) == RATE_MAX * 10 + BURST
    notes = [one for one in changes.commands if isinstance(one, Note)]
    assert [one.kind for one in notes] == ["distrusted"]
    assert canary(stage) in notes[0].words
    stage.now += 1
    again = stage.rollout.step(Measured(canary(stage), telemetry(6, 2 * 10**9)), stage.now)
    assert not again.commands, "named once"


def test_telemetry_of_the_new_version_counts_only_after_the_report_that_it_runs(stage: Stage):
    other = stage.in_order()[1]
    assert counted(stage, telemetry(5, 100), device=other) == 0
    assert control(stage) == 0


def test_telemetry_of_another_version_or_model_goes_nowhere(stage: Stage):
    third = telemetry(5, 100, version="0.9.0")
    other = third.model_copy(
        update={"sequence": 6, "tally": third.tally.model_copy(update={"model": "mic"})}
    )
    for device in (canary(stage), stage.in_order()[1]):
        assert counted(stage, third, other, device=device) == 0
    assert control(stage) == 0


def test_one_device_does_not_speak_for_all():
    stage = Stage(10, canary=0.4, done_samples=10**6)
    stage.tell("start")
    stage.step(Ticked())
    stage.now += 1
    names = stage.in_order()[:4]
    for name in names:
        actor = stage.actors[name]
        new = {"version": NEW, "manifest_sha256": SHA[NEW]}
        stage.step(Reported(name, actor.report(DevicePhase.COMMITTED, **new)))
    stage.now += 1000
    for name in names[1:]:
        counted(stage, telemetry(5, 1000), device=name)
    before = counted(stage)
    assert counted(stage, telemetry(5, 1_000_000), device=names[0]) == before + 5 * 1000
    assert SHARE_FLOOR < 5000


def test_a_device_s_history_counts_once_and_within_bounds(stage: Stage):
    other = stage.in_order()[2]
    first = telemetry(7, 50_000, OLD, started=0)
    counted(stage, first, first, device=other)
    assert control(stage) == SHARE_FLOOR


def test_shadow_pairs_count_once_and_only_in_the_shadow_stage():
    stage = Stage(5, canary=0.2, shadow_s=3600)
    stage.tell("start")
    stage.step(Ticked())
    stage.now += 10
    name = canary(stage)
    actor = stage.actors[name]

    def shown(sequence: int, samples: int, pairs: int, started: int = 1) -> None:
        one = telemetry(sequence, 10, OLD, started=0).model_copy(
            update={
                "shadow": Shadow(
                    version=NEW, started=started, samples=samples, agreed=samples, both_right=pairs
                )
            }
        )
        stage.step(Measured(name, one))

    def pairs() -> int:
        return stage.rollout._run.evidence.shadow.pairs

    shown(1, 100, 10)
    assert pairs() == 0, "it has not said that it is staged"
    stage.step(Reported(name, actor.report(DevicePhase.STAGED)))
    for sequence, samples, seen, started, expected in (
        (2, 100, 10, 1, 10),
        (2, 100, 10, 1, 10),  # a copy
        (4, 200, 30, 1, 30),
        (3, 150, 20, 1, 30),  # late
        (5, 50, 5, 2, 35),  # another run of the shadow
        (6, 300, 40, 1, 35),  # of the run before
        (7, 60, 500, 2, 35),  # more pairs than samples
        (8, 10**9, 10, 2, 35),  # a flood
    ):
        shown(sequence, samples, seen, started)
        assert pairs() == expected, sequence


def test_a_device_is_done_after_its_samples_and_its_failures_do_not_count():
    stage = Stage(5, canary=0.2, done_samples=50, criteria=("silent <= 0.5",))
    stage.tell("start")
    stage.step(Ticked())
    stage.now += 1
    commit(stage)
    stage.now += 10
    counted(stage, telemetry(5, 60, failed=20))
    assert stage.phase(canary(stage)) is Phase.COMMITTED
    counted(stage, telemetry(6, 71, failed=21))
    assert stage.phase(canary(stage)) is Phase.DONE


@pytest.mark.parametrize("arm", ["cohort", "control"])
def test_who_reports_first_of_several_may_not_fill_the_evidence(arm: str):
    """There is nobody to compare with yet, which is when a flood would say most."""
    stage = Stage(5, canary=0.4, done_samples=100_000)
    stage.tell("start")
    stage.step(Ticked())
    stage.now += 1
    commit(stage)
    stage.now += 100
    if arm == "cohort":
        assert counted(stage, telemetry(5, 400_000)) == SHARE_FLOOR
    else:
        reports = telemetry(5, 100, OLD), telemetry(6, 400_000, OLD)
        counted(stage, reports[0], device=stage.in_order()[3])
        stage.now += 100
        counted(stage, reports[1], device=stage.in_order()[3])
        assert control(stage) == SHARE_FLOOR


def test_a_canary_of_one_counts_in_full():
    stage = Stage(5, canary=0.2, done_samples=100_000)
    stage.tell("start")
    stage.step(Ticked())
    stage.now += 1
    commit(stage)
    stage.now += 100
    assert counted(stage, telemetry(5, 400_000)) == 400_000


def test_a_histogram_holds_no_more_than_the_samples_that_came(stage: Stage):
    """Or one report in which everything took 1.6 s would be everybody's 95th percentile."""
    one = telemetry(5, 100)
    full = (0,) * (LATENCY_BINS - 1) + (2**50,), ((2**50,) + (0,) * (CONFIDENCE_BINS - 1),)
    tally = one.tally.model_copy(update={"latency": full[0], "confidence": full[1]})
    stage.step(Measured(canary(stage), one.model_copy(update={"tally": tally})))
    evidence = stage.rollout._run.evidence
    assert sum(evidence.latency.cohort) == 100
    assert sum(evidence.confidence.cohort) == 100


def test_counts_that_fall_and_rise_again_never_come_to_more_than_the_samples(stage: Stage):
    for turn in range(4):
        counted(
            stage, telemetry(2 * turn + 5, 900), telemetry(2 * turn + 6, 901, escalated=901),
        )  # fmt: skip
    cohort = stage.rollout._run.evidence.cohort
    assert cohort[ESCALATED] <= cohort[SAMPLES] == 904
    assert len(cohort) == COUNTS


def test_one_device_s_shadow_does_not_speak_for_all():
    stage = Stage(10, canary=0.4, shadow_s=3600)
    stage.tell("start")
    stage.step(Ticked())
    names = stage.in_order()[:4]
    for name in names:
        stage.step(Reported(name, stage.actors[name].report(DevicePhase.STAGED)))

    def shown(name: str, sequence: int, samples: int) -> None:
        stage.now += 1000
        one = telemetry(sequence, 10, OLD, started=0)
        said = Shadow(version=NEW, samples=samples, agreed=samples, only_candidate_right=samples)
        stage.step(Measured(name, one.model_copy(update={"shadow": said})))

    sums = stage.rollout._run.evidence.shadow
    shown(names[0], 1, 100_000)
    assert (sums.samples, sums.pairs) == (SHADOW_FLOOR, SHADOW_FLOOR), "there are others to come"
    for name in names[1:]:
        shown(name, 1, 100)
    for sequence in range(2, 5):
        shown(names[0], sequence, sequence * 100_000)
    assert sums.samples == sums.pairs == 300 + SHARE_TIMES * 100


def test_answers_in_shadow_may_come_after_their_samples():
    stage = Stage(10, canary=0.1, shadow_s=3600)
    stage.tell("start")
    stage.step(Ticked())
    name = canary(stage)
    stage.step(Reported(name, stage.actors[name].report(DevicePhase.STAGED)))
    stage.now += 1000
    for sequence, pairs in ((1, 0), (2, 90)):
        said = Shadow(version=NEW, samples=100, agreed=100, both_right=pairs)
        one = telemetry(sequence, 10, OLD, started=0).model_copy(update={"shadow": said})
        stage.step(Measured(name, one))
    assert stage.rollout._run.evidence.shadow.pairs == 90
