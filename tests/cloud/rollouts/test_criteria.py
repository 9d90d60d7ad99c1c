import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.rollouts.criteria import MEASURES, parse, parse_all
from cloud.rollouts.documents import CRITERIA
from shared.errors import Malformed


def test_the_defaults_parse_and_are_about_different_things():
    assert len(parse_all(CRITERIA)) == len(CRITERIA)


@pytest.mark.parametrize(
    ("text", "control", "bound"),
    [
        ("silent <= 0.05", None, 0.05),
        ("  escalation_rate<=control+0.05 ", 0.1, 0.15),
        ("p95_latency_ms <= control * 1.5", 10.0, 15.0),
        ("disagreement <= control", 0.1, 0.1),
        ("agreement >= 8e-1", None, 0.8),
    ],
)
def test_bounds(text: str, control: float | None, bound: float):
    assert parse(text).bound(control) == pytest.approx(bound)


def test_without_a_control_value_there_is_no_bound():
    assert parse("disagreement <= control + 0.1").bound(None) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "position 1: it begins with a name"),
        ("silnt <= 0.1", "did you mean 'silent'"),
        ("xyzzy <= 0.1", "there is install_failures"),
        ("silent < 0.1", "position 8: silent is bounded by '<=', not '<'"),
        ("silent >= 0.1", "bounded by '<='"),
        ("agreement <= 0.1", "bounded by '>='"),
        ("silent <=", "a number or 'control' goes here, not 'the end'"),
        ("silent <= lots", "not 'lots'"),
        ("silent <= -1", "not '-'"),
        ("silent <= 2", "at most 1, so this never stops it"),
        ("silent <= 1e400", "too large"),
        ("disagreement <= control - 0.1", "goes '+' or '*'"),
        ("disagreement <= control +", "a number goes here, not 'the end'"),
        ("disagreement <= control * 0.5", "a good version would fail"),
        ("install_failures <= control", "no control to be compared with"),
        ("accuracy_loss <= control + 1", "no control to be compared with"),
        ("silent <= 0.1 0.2", "position 15: it should end here"),
        ("silent <= 5%", "means nothing here"),
        ("silent <= 0.1; drop", "means nothing here"),
    ],
)
def test_what_does_not_parse_is_refused_with_its_position(text: str, words: str):
    with pytest.raises(Malformed) as refused:
        parse(text)
    assert words in str(refused.value)
    assert "position" in str(refused.value)


def test_two_criteria_about_one_thing_are_refused():
    with pytest.raises(Malformed, match="both about silent"):
        parse_all(("silent <= 0.1", "silent <= 0.2"))


@given(st.text(max_size=200))
def test_any_text_parses_or_is_refused(text: str):
    try:
        name = parse(text).name
    except Malformed as refused:
        name, words = "agreement", str(refused)
    else:
        words = ""
    assert name in MEASURES
    assert len(words) < 500
