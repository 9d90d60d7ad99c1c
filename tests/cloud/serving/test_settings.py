"""What the settings of serving refuse, and what they make of themselves for a model."""

from math import inf

import pytest

from cloud.serving.settings import Batching


def test_rules_fit_the_model() -> None:
    batching = Batching(size_max=32, preferred=(8, 16, 32), p99_ms=50, wait_ms_max=2)
    rules = batching.rules(16)
    assert (rules.size_max, rules.preferred) == (16, (8, 16))
    assert (rules.p99_s, rules.wait_s_max) == (0.05, 0.002)
    assert batching.rules(10**9).size_max == 32


def test_queue_limits_by_priority() -> None:
    assert Batching().rules(32).queue_s_max == (inf, inf, inf)
    batching = Batching.model_validate({"queue_s_max": {"interactive": 0.5, "bulk": 60}})
    assert batching.rules(32).queue_s_max == (0.5, inf, 60.0)


def test_without_a_target_each_request_has_its_deadline_only() -> None:
    assert Batching().rules(32).p99_s is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size_max": 8, "depth_max": 4}, "depth_max 4 is below size_max 8"),
        ({"preferred": (8, 4)}, "must rise"),
        ({"queue_s_max": {"bulk": 0}}, "greater than 0"),
        ({"preferred": (4, 4)}, "must rise"),
        ({"size_max": 8, "preferred": (4, 16)}, "end at most at size_max 8"),
    ],
)
def test_batching_that_contradicts_itself_is_refused(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Batching.model_validate(settings)
