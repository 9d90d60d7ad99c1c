import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from cloud.registry.documents import Evaluation, RuleResult
from cloud.registry.evaluation import plots
from cloud.registry.evaluation.figures import (
    Boundary,
    Gradient,
    Latency,
    Measured,
    Pair,
    Report,
    Robustness,
    Shaken,
)
from cloud.registry.evaluation.hardware import this_hardware
from cloud.registry.evaluation.page import render
from cloud.registry.evaluation.quality import measure_quality

HOSTILE = '\u202e<script>alert("$x$")</script>&\x07'


def measured(names=("a", "b"), **more) -> Measured:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, len(names), 200)
    logits = (np.eye(len(names))[labels] + rng.normal(0, 0.7, (200, len(names)))).astype(np.float32)
    found = measure_quality(logits, labels.astype(np.int64), tuple(["s1", "s2"] * 100), names=names,
                            temperature=1, group_rows_min=1)  # fmt: skip
    return Measured(
        model="m", version="1.0.0", variant="onnxruntime/int8", hardware="h",
        metrics=found.metrics | {"p95_ms": 1.0}, quality=found.quality,
        latency=Latency(runs=20, quantiles_ms=tuple(np.linspace(1, 2, 101)), throughput_per_s={1: 9}),
        robustness=Robustness(
            shaken=(Shaken(name="noise", rows=9, clean=0.9, accuracy=0.8),),
            boundary=(Boundary(name="all least", finite=False, agrees=False),),
            gradient=Gradient(rows=9, queries=90, clean=0.9, stepped=0.5, random=0.8),
        ),
        **more,
    )  # fmt: skip


def report(mine: Measured, current: Measured | None = None, **more) -> Report:
    evaluation = Evaluation(
        id="0" * 8 + "-0000-7000-8000-" + "0" * 12, model="m", version="2.0.0", state="failed",
        queued_at=0, queued_by="x", current=None if current is None else current.version,
        why=more.get("why", ""),
        rules=(RuleResult(rule="f1 > 1", variant="onnxruntime/int8", holds=False, why=more.pop(
            "why", "f1 is 0.9, not > 1")),),
    )  # fmt: skip
    return Report(
        evaluation=evaluation, hardware=this_hardware(), rules="f1 > 1", seed=0,
        data=more.pop("data", "data set d 1, 200 rows"), measured=(mine,),
        current={} if current is None else {mine.variant: current},
        pairs=(Pair(variant=mine.variant, other="reference", difference_max=None, agreement=0.5,
                    within=False),),
        not_run={"tensorrt/fp32": more.pop("not_run", "not here")}, took_s=1.0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def page() -> str:
    return render(report(measured(), measured()))


def test_a_page_compares_with_the_current_release(page):
    assert "this version" in page
    assert "current release 1.0.0" in page
    assert page.count("<svg") == 5


def test_the_same_figures_give_the_same_bytes(page):
    assert render(report(measured(), measured())) == page


def test_whatever_comes_from_outside_is_escaped():
    hostile = measured((HOSTILE, "b"), notes=(HOSTILE,), broke=HOSTILE)
    page = render(report(hostile, why=HOSTILE, data=HOSTILE, not_run=HOSTILE))
    assert "<script" not in page
    assert page.count("alert(") > 5
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    texts = [part.text or "" for svg in svgs for part in ET.fromstring(svg).iter()]
    assert any("$x$" in text for text in texts)  # as it is, no formula
    assert not any("\u202e" in svg for svg in svgs)


def test_nothing_is_loaded_from_elsewhere(page):
    found = set(re.findall(r"(?:https?:)?//[^\s\"'<)]+", page))
    assert found <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page


def test_a_hundred_classes_and_more_are_cut_to_the_worst():
    names = tuple(f"class {at}" for at in range(150))
    page = render(report(measured(names)))
    assert len(page) < 1_000_000
    assert len(set(re.findall(r">class \d+<", page))) <= plots.CLASSES_MAX


def test_a_variant_that_broke_has_its_reason_and_no_plots():
    broke = Measured(model="m", version="2.0.0", variant="onnxruntime/int8", hardware="h",
                     broke="died of SIGSEGV", missing={"f1": "died of SIGSEGV"})  # fmt: skip
    page = render(report(broke))
    assert "died of SIGSEGV" in page
    assert "<svg" not in page


@pytest.mark.parametrize(
    ("mine", "theirs", "kind"),
    [(0.9, 0.8, "good"), (0.7, 0.8, "bad")],
)
def test_a_difference_is_coloured_by_what_is_better(mine, theirs, kind):
    def one(f1: float, ms: float) -> Measured:
        return Measured(model="m", version="1.0.0", variant="v", hardware="h",
                        metrics={"f1": f1, "p95_ms": ms})  # fmt: skip

    page = render(report(one(mine, theirs), one(theirs, mine)))
    for difference in (mine - theirs, theirs - mine):
        assert page.count(f'<span class="{kind}">{difference:+.4g}</span>') == 1
