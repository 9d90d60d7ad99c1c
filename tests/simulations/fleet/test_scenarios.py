from dataclasses import replace

import pytest

from shared.errors import Malformed, Unknown
from simulations.fleet.models import CANDIDATES
from simulations.fleet.names import NAMES
from simulations.fleet.run import simulate, words
from simulations.fleet.scenarios import LARGE, scenario, sized
from simulations.fleet.traffic import Population

BROKEN = ("crash", "crash-late", "nan", "golden", "slow", "flaky")


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_version_reaches_the_canary_at_most_and_is_undone(kind):
    outcome = simulate(scenario(kind), 1, 40).outcome
    assert outcome.status == "rolled_back"
    assert outcome.stage.split()[0] in ("shadow", "canary")
    assert outcome.exposed <= 2


def test_a_worse_version_is_stopped_before_it_answers_anybody():
    outcome = simulate(replace(scenario("worse"), population=Population(1.0)), 1, 100).outcome
    assert outcome.status == "rolled_back"
    assert "accuracy_loss" in outcome.why
    assert outcome.exposed == 0


def test_a_good_version_reaches_everybody():
    outcome = simulate(replace(scenario("good"), population=Population(1.0)), 1, 60).outcome
    assert outcome.status == "succeeded"
    assert outcome.exposed == 60
    assert "succeeded" in "\n".join(words(outcome))


def test_every_candidate_has_a_scenario_and_every_name_says_what_it_is():
    assert set(NAMES) == {*CANDIDATES, "storm"}
    assert all(scenario(name).words == NAMES[name] for name in NAMES)


def test_a_name_that_is_none_is_refused_with_those_there_are():
    with pytest.raises(Unknown, match="there are good, better"):
        scenario("godo")


def test_a_fleet_of_nobody_is_refused():
    with pytest.raises(Malformed, match="between 1 and 1,000,000"):
        simulate(scenario("good"), 1, 0)


def test_large_fleets_report_more_rarely():
    asked = scenario("good")
    assert sized(asked, LARGE) is asked
    assert sized(asked, LARGE + 1).telemetry_s > asked.telemetry_s
