import pytest
from pydantic import ValidationError

from cloud.rollouts.documents import RISK_MIN
from cloud.rollouts.events import Target
from cloud.rollouts.placing import in_order
from cloud.rollouts.plan import pairs_to_clear, plan
from shared.errors import Conflict
from tests.cloud.rollouts.acting import NEW, Stage, spec, targets


def test_it_says_who_moves_when_and_what_is_asked():
    made = plan(spec(shadow_s=3600, approvals=("wave",)), targets(300), 0.0)
    assert [(one.kind, one.number, one.count) for one in made.stages] == [
        ("shadow", 1, 30), ("canary", 1, 30), ("wave", 1, 120), ("wave", 2, 150), ("watch", 1, 300),
    ]  # fmt: skip
    order = in_order([one.device for one in targets(300)], "s")
    assert made.stages[2].devices == tuple(order[30:130])
    assert [one.earliest_s for one in made.stages] == [0, 0, 300, 600, 900]
    assert [one.approval for one in made.stages] == [False, False, True, True, False]
    assert any("accuracy_loss <= 0.005" in one for one in made.stages[0].needs)
    assert any("escalation_rate" in one for one in made.stages[1].needs)
    assert not any("escalation_rate" in one for one in made.stages[0].needs)


def test_windows_delay_a_stage_by_its_last_device_s_own_night():
    two = [Target("a", "1", time_zone="UTC"), Target("b", "1", time_zone="Asia/Tokyo")]
    made = plan(spec(canary=1.0, waves=(1.0,), window=("01:00-02:00",)), two, 0.0)
    assert made.stages[0].earliest_s == 16 * 3600  # 01:00 in Tokyo; in London it is an hour


@pytest.mark.parametrize(
    ("changes", "devices", "words"),
    [
        ({}, 5, "the canary is one device"),
        ({"canary": 1.0, "waves": (1.0,)}, 5, "the canary is the whole fleet"),
        ({"audit_share": None}, 30, "disagreement has no data"),
        ({}, 30, "no shadow stage, so accuracy_loss"),
        ({"criteria": ()}, 30, "there are no criteria"),
        ({"shadow_s": 60, "shadow_samples": 10}, 30, "the shadow will last longer"),
    ],
)
def test_what_will_be_in_the_way_is_said(changes: dict, devices: int, words: str):
    warnings = plan(spec(**changes), targets(devices), 0.0).warnings
    assert any(words in one for one in warnings), warnings


def test_devices_that_have_it_and_those_that_come_from_elsewhere_are_counted():
    mixed = [Target("a", NEW), Target("b", "1.0.0"), Target("c", None)]
    warnings = plan(spec(), mixed, 0.0).warnings
    assert f"1 devices have {NEW} already" in warnings
    assert "devices come from several versions: 1 1.0.0, 1 2.0.0, 1 nothing known" in warnings


def test_nobody_is_refused():
    with pytest.raises(Conflict):
        plan(spec(), [], 0.0)


def test_a_harder_question_takes_more_samples():
    assert pairs_to_clear(spec(worse=0.01)) > 3 * pairs_to_clear(spec(worse=0.02))


@pytest.mark.parametrize("name", ["risk", "miss_risk"])
def test_a_risk_is_one_that_can_be_judged_by(name: str):
    """With 1e-320 the first look raised, in each process that read the rollout again."""
    with pytest.raises(ValidationError):
        spec(**{name: RISK_MIN / 2})
    stage = Stage(4, canary=0.5, shadow_s=60, **{name: RISK_MIN})
    stage.tell("start")
    stage.play(1800)
    assert all(one.verdict for one in stage.rollout.view(stage.now).criteria)
