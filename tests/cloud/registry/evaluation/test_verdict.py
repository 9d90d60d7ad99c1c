import pytest

from cloud.registry.documents import RuleResult
from cloud.registry.evaluation.figures import REFERENCE, Boundary, Measured, Pair, Robustness
from cloud.registry.evaluation.rules import NoCurrent, parse
from cloud.registry.evaluation.verdict import Current, decide, plain

NOTHING = Current(nothing=NoCurrent())
RULE = parse("f1 >= current + 0.01")
WITHIN = Pair(variant="onnxruntime/int8", other=REFERENCE, difference_max=0.1, agreement=1.0,
              within=True)  # fmt: skip


def measured(f1: float, version: str = "2.0.0", hardware: str = "here", **more) -> Measured:
    return Measured(model="m", version=version, variant="onnxruntime/int8", hardware=hardware,
                    **({"metrics": {"f1": f1}} | more))  # fmt: skip


def decided(mine: Measured, current: Current, pairs=(WITHIN,), engines=("onnxruntime",), rule=RULE):
    return decide(rule, engines, [mine], current, pairs)


def beside(current: Measured) -> Current:
    return Current({"onnxruntime/int8": current})


def test_better_than_the_current_release_passes():
    found = decided(measured(0.92), beside(measured(0.9, "1.0.0")))
    assert found.state == "passed"
    assert found.why == "all 4 rules hold on onnxruntime/int8"


def test_worse_than_the_current_release_fails_with_the_figures():
    found = decided(measured(0.905), beside(measured(0.9, "1.0.0")))
    assert found.state == "failed"
    assert "f1 is 0.905, not >= current + 0.01 = 0.91 (current f1 0.9)" in found.why


def test_figures_from_other_hardware_never_enter_a_comparison():
    found = decided(measured(0.92), beside(measured(0.9, "1.0.0", hardware="elsewhere")))
    assert found.state == "failed"
    assert "measured on other hardware (elsewhere), which does not count" in found.why


def test_a_current_release_that_could_not_be_measured_fails_the_comparison():
    assert "no such file" in decided(measured(0.92), Current(why_not="no such file")).why
    broken = measured(0, "1.0.0", metrics={}, missing={"f1": "it crashed"}, broke="it crashed")
    assert "current release's f1 is not measured: it crashed" in (
        decided(measured(0.92), beside(broken)).why
    )


def test_without_a_current_release_it_passes():
    assert decided(measured(0.1), NOTHING).state == "passed"


def test_a_model_that_broke_fails_with_that_one_reason():
    found = decided(measured(0, metrics={}, broke="died of SIGSEGV"), NOTHING)
    assert found.why == "onnxruntime/int8: runs on onnxruntime: died of SIGSEGV"
    assert len(found.results) == 1


def test_an_engine_without_a_variant_fails():
    found = decided(measured(0.9), NOTHING, engines=("onnxruntime", "openvino"))
    assert found.why == (
        "openvino: runs on openvino: the bundle has no variant for openvino; add one or change the "
        "gate"
    )


def test_answers_that_are_not_finite_or_out_of_tolerance_fail_whatever_the_rules_say():
    bad = Robustness(boundary=(Boundary(name="all least", finite=False, agrees=False),))
    found = decided(measured(0.9, robustness=bad), NOTHING)
    assert "NaN or infinity for all least" in found.why
    out = WITHIN.model_copy(update={"within": False, "difference_max": None})
    found = decided(measured(0.9), NOTHING, pairs=(out,))
    assert "largest difference not finite" in found.why


def test_passed_means_that_every_result_holds():
    rule = parse("f1 > 5 or f1 > 0.5")
    found = decided(measured(0.9), NOTHING, rule=rule)
    assert found.state == "passed"
    assert all(one.holds for one in found.results)


def test_a_long_verdict_is_cut_and_what_fails_is_kept():
    rule = parse(" and ".join([f"(f1 >= 0 or {' or '.join(['ece > 0'] * 3)})"] * 24 + ["auc > 0"]))
    missing = {"auc": "x" * 500, "ece": "y" * 2000}
    many = [
        measured(0.9, missing=missing).model_copy(update={"variant": f"onnxruntime/{at}"})
        for at in range(12)
    ]
    found = decide(rule, ("onnxruntime",), many, NOTHING, ())
    size = sum(len(one.rule) + len(one.why) for one in found.results)
    assert size < 81_000
    assert len(found.why) <= 2000
    assert sum(not one.holds for one in found.results) == 12
    assert found.results[-1].rule.startswith("and ")


@pytest.mark.parametrize("odd", ["a\x00b", "a\nb", "a\x1b[31mb", "a\ud800b", "a\x9fb"])
def test_what_an_engine_says_becomes_one_plain_line(odd):
    assert plain(odd).startswith("a ")
    found = decided(measured(0, broke=odd), NOTHING)
    assert found.results == (
        RuleResult(rule="runs on onnxruntime", variant="onnxruntime/int8", holds=False,
                   why=plain(odd)),
    )  # fmt: skip
