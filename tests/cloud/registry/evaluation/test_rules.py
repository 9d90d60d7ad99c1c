import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.evaluation.metric_names import METRICS
from cloud.registry.evaluation.rules import NoCurrent, Rule, judge, parse
from shared.errors import Malformed

NAN = float("nan")


def holds(text: str, metrics: dict, current: dict | NoCurrent | None = None) -> bool:
    return judge(parse(text), metrics, current).holds


def why(text: str, metrics: dict, current: dict | NoCurrent | None = None, **more) -> str:
    (result,) = judge(parse(text), metrics, current, **more).results
    return result.why


def test_the_issue_s_own_rule():
    text = "f1 >= current + 0.005 and p95_ms <= 20 and worst_slice >= current - 0.01"
    mine = {"f1": 0.91, "p95_ms": 19.0, "worst_slice": 0.80}
    assert holds(text, mine, {"f1": 0.90, "worst_slice": 0.805})
    assert not holds(text, mine, {"f1": 0.906, "worst_slice": 0.805})
    assert not holds(text, mine | {"p95_ms": 20.5}, {"f1": 0.90, "worst_slice": 0.805})
    assert not holds(text, mine, {"f1": 0.90, "worst_slice": 0.811})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f1 < 0.5", False), ("f1 <= 0.5", True), ("f1 > 0.5", False), ("f1 >= 0.5", True),
        ("f1 == 0.5", True), ("f1 != 0.5", False), ("f1 == 0.25 * 2", True),
        ("f1 > 1 - 0.3 - 0.3", True), ("f1 == 1 / 4 / 0.5", True), ("f1 == 2 - 3 * 0.5", True),
        ("f1 == (2 - 1) * 0.5", True), ("f1 > -1", True), ("f1 == --0.5", True),
        ("f1 == 5e-1", True), ("f1 == .5", True), ("f1 == current.ece * 5", True),
        ("f1 == current", False), ("not f1 < 0.5", True), ("not not f1 < 0.5", False),
        ("f1 > 1 or f1 < 1", True), ("f1 > 1 or f1 < 1 and f1 > 2", False),
        ("(f1 > 1 or f1 < 1) and f1 > 0.4", True), ("not (f1 > 1 and f1 < 1)", True),
        ("f1\n>=\t0.5", True),
    ],
)  # fmt: skip
def test_what_a_rule_means(text, expected):
    assert holds(text, {"f1": 0.5}, {"f1": 0.4, "ece": 0.1}) is expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at 1, the end: expected a metric"),
        ("   ", "at 4, the end"),
        ("f2 > 1", "at 1, 'f2': there is no metric 'f2'; did you mean f1?"),
        ("F1 > 1", "did you mean f1?"),
        ("worst_clas > 1", "did you mean worst_class?"),
        ("zzzzzz > 1", "there are accuracy, precision"),
        ("f1 > current.wrst_slice", "at 6, 'current.wrst_slice': .* did you mean worst_slice?"),
        ("f1 > curent", "at 6, 'curent': .* did you mean current?"),
        ("f1 > ece", "did you mean current.ece?"),
        ("f1 >", "at 5, the end: expected a number"),
        ("f1", "at 3, the end: expected one of <= >= == != < >"),
        ("f1 = 1", "at 4, '=': did you mean `==`?"),
        ("f1 => 1", "at 4, '=': did you mean `==`?"),
        ("f1 > 1 && f1 > 2", "at 8, '&&': did you mean `and`?"),
        ("f1 > 1 || f1 > 2", "did you mean `or`?"),
        ("f1 ≥ 1", "did you mean `>=`?"),
        ("f1 > 1 AND f1 > 2", "at 8, 'AND': .* did you mean and?"),
        ("f1 > 1 f1 > 2", "at 8, 'f1': expected `and`, `or` or the end"),
        ("f1 > 95%", "at 8, '%': write a share as 0.95"),
        ("f1 > 0.9.1", "not a number"),
        ("f1 > 9k", "not a number"),
        ("f1 > 1 > 2", "at 8, '>': a comparison has one sign"),
        ("0.9 < f1", "at 1, '0.9': expected a metric"),
        ("current <= f1", "stands on the right"),
        ("(f1 > 1", "at 8, the end: expected `\\)`"),
        ("f1 > 1)", "at 7, '\\)': nothing opened this bracket"),
        ("f1 > (1 + 2", "expected `\\)`"),
        ("f1 > 1 and", "at 11, the end: expected a metric"),
        ("not", "expected a metric"),
        ("f1 > 1 / 0", "at 10, '0': division by zero"),
        ("f1 > 1 / (2 - 2)", "division by zero"),
        ("f1 > 1e999", "too large for a number"),
        ("f1 > nan", "at 6, 'nan'"),
        ("f1 > inf", "at 6, 'inf'"),
        ("f1 \x00> 1", "at 4, '\\\\x00': not part of a rule"),
        ("f1 > 1; drop", "at 7, ';': not part of a rule"),
        ("__import__('os')", "at 12"),
        ("__import__ > 1", "there is no metric '__import__'"),
        ("f1 > \u0661", "not"),
    ],
)
def test_what_does_not_parse_is_refused_with_its_place(text, said):
    with pytest.raises(Malformed, match=said):
        parse(text)


def test_a_rule_s_length_is_bounded():
    with pytest.raises(Malformed, match="at most 4000"):
        parse("f1 > 0 and " * 400 + "f1 > 0")


@pytest.mark.parametrize(
    "text",
    ["(" * 21 + "f1 > 0" + ")" * 21, "not " * 21 + "f1 > 0", "f1 > " + "-" * 21 + "1",
     "f1 > " + "(" * 21 + "1" + ")" * 21],
)  # fmt: skip
def test_a_rule_s_nesting_is_bounded(text):
    with pytest.raises(Malformed, match="nested more than 20 deep"):
        parse(text)


def test_brackets_beside_each_other_are_not_nested():
    assert holds(" and ".join(["(f1 > (0 - 1))"] * 50), {"f1": 0.5})


def test_the_number_of_comparisons_and_terms_is_bounded():
    with pytest.raises(Malformed, match="more than 100 comparisons"):
        parse(" and ".join(["f1 > 0"] * 101))
    with pytest.raises(Malformed, match="more than 50 numbers"):
        parse("f1 > " + "+".join(["1"] * 51))


@pytest.mark.parametrize(
    "text", ["f1 > 0", "f1 != 0", "not f1 > 0", "not f1 != 0", "f1 == current"]
)
@pytest.mark.parametrize("metrics", [{}, {"f1": NAN}, {"f1": float("inf")}])
def test_nan_and_what_is_missing_never_hold(text, metrics):
    assert not holds(text, metrics, {"f1": NAN})


def test_a_missing_figure_of_the_current_release_never_holds():
    assert not holds("f1 >= current", {"f1": 0.5}, {})
    assert not holds("not f1 < current", {"f1": 0.5}, {"f1": NAN})


@pytest.mark.parametrize("text", ["f1 >= {}", "f1 != {}", "not f1 == {}", "not f1 < {}"])
def test_a_bound_without_a_value_never_holds(text):
    rule = text.format("current / current.ece")
    assert not holds(rule, {"f1": 0.5}, {"f1": 0.4, "ece": 0.0})
    assert "has no value" in why(rule, {"f1": 0.5}, {"f1": 0.4, "ece": 0.0})


def test_what_cannot_be_told_does_not_spoil_an_alternative():
    assert holds("f1 > 0 or worst_slice > 0", {"f1": 0.5})
    assert not holds("f1 > 0 and worst_slice > 0", {"f1": 0.5})
    assert not holds("not (worst_slice > 0 or f1 > 0.9)", {"f1": 0.5})
    assert not holds("not (worst_slice > 0 and f1 > 0)", {"f1": 0.5})
    assert holds("not (worst_slice > 0 and f1 > 0.9)", {"f1": 0.5})


@pytest.mark.parametrize("text", ["f1 >= current + 1", "not f1 < current", "not not f1 > current"])
def test_without_a_current_release_nothing_falls_behind(text):
    assert holds(text, {"f1": 0.5}, None)
    assert "there is no current release" in why(text, {"f1": 0.5}, None)
    assert not holds(text, {}, None)  # but it must be measured


def test_a_version_that_is_the_current_release_says_so():
    itself = NoCurrent("this is the current release")
    assert "this is the current release" in why("f1 > current", {"f1": 0.5}, itself)


def test_reasons_have_the_figures():
    assert why("f1 >= current + 0.01", {"f1": 0.9134}, {"f1": 0.9}) == (
        "f1 is 0.9134, >= current + 0.01 = 0.91 (current f1 0.9)"
    )
    assert why("p95_ms <= 20", {"p95_ms": 23.5}) == "p95_ms is 23.5, not <= 20"
    assert why("auc > 0.5", {}, missing={"auc": "one class"}) == "auc is not measured: one class"
    said = why("auc > current", {"auc": 0.6}, {}, current_missing={"auc": "it crashed"})
    assert said == "auc is 0.6; the current release's auc is not measured: it crashed"


def test_each_condition_joined_by_and_has_its_result_and_or_has_one():
    rule = parse("f1 > 0.9 and (p95_ms < 5 or memory_mb < 9) and (auc > 0 and ece < 1)")
    metrics = {"f1": 0.5, "p95_ms": 7, "memory_mb": 8, "auc": 0.9, "ece": 0.1}
    found = judge(rule, metrics, None, variant="onnxruntime/int8")
    assert [(one.rule, one.holds) for one in found.results] == [
        ("f1 > 0.9", False), ("p95_ms < 5 or memory_mb < 9", True), ("auc > 0", True),
        ("ece < 1", True),
    ]  # fmt: skip
    assert not found.holds
    assert {one.variant for one in found.results} == {"onnxruntime/int8"}


PIECES = [
    *METRICS, "current", "current.f1", "and", "or", "not", "(", ")", "<", ">=", "==", "+", "-", "*",
    "/", "0", "0.5", "1e3", " ", "\n", "=", "%", "é",
]  # fmt: skip


def parsed(text: str) -> Rule | Malformed:
    try:
        return parse(text)
    except Malformed as error:
        return error


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join) | st.text(max_size=60))
def test_any_text_is_a_rule_or_refused(text):
    found = parsed(text)
    if isinstance(found, Malformed):
        assert str(found).startswith("rules: at ")
    else:
        judge(found, dict.fromkeys(METRICS, 0.5), dict.fromkeys(METRICS, 0.5))
        assert not judge(found, {}, None).holds
