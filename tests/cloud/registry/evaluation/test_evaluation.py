"""Real models on real images, beside a current release, on both engines; and odd ones."""

import asyncio
import json
import re
from pathlib import Path

import numpy as np
import pytest

from cloud.registry.documents import Evaluation, State
from cloud.registry.evaluation.figures import Report
from cloud.registry.evaluation.metric_names import METRICS
from shared.bundle.reader import open_bundle
from tests.cloud.registry.evaluation.odd_models import (
    dividing,
    hanging,
    starving,
    write_head,
    write_odd,
)
from tests.cloud.registry.evaluation.world import (
    MODELS,
    QUICK,
    World,
    another_version,
    fashion,
)
from tests.tiny_bundle import tiny_logits, tiny_onnx, write_tiny_bundle

EDGE = MODELS / "fashion-edge"
VARIANTS = [
    one.model_dump(mode="json")
    for one in open_bundle(EDGE).manifest.variants
    if one.key in {"onnxruntime/int8", "openvino/int8", "tensorrt/fp32"}
]
RULES = (
    "f1 >= current - 0.001 and p95_ms <= 1000 and worst_slice >= current - 0.05 and parity > 0.9"
)


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    """fashion-edge 1.1.0, evaluated beside 1.0.0: `evaluation`, `report`, `page`, `first`."""
    folder = tmp_path_factory.mktemp("registry")

    async def run(world: World) -> dict:
        gate = {"rules": RULES, "data_set": "fashion"}
        world.set_gate("fashion-edge", **gate)
        await world.add_data("fashion", **fashion(300))
        await world.push(another_version(EDGE, folder / "a", "1.0.0", variants=VARIANTS[:1]))
        assert await world.evaluator().work_once()
        first = world.newest("fashion-edge", "1.0.0")
        world.release("fashion-edge", "1.0.0")
        world.set_gate("fashion-edge", **gate, engines=("onnxruntime", "openvino"))
        await world.push(another_version(EDGE, folder / "b", "1.1.0", variants=VARIANTS))
        assert await world.evaluator().work_once()
        found = world.newest("fashion-edge", "1.1.0")
        return {
            "first": first,
            "evaluation": found,
            "report": await world.artifacts.read(found.report_json, 10**7),
            "page": await world.artifacts.read(found.report_html, 10**7),
            "state": world.catalog.version("fashion-edge", "1.1.0").state,
        }

    return asyncio.run(run(World(folder)))


def test_a_version_that_holds_the_rules_becomes_a_candidate(second):
    found = second["evaluation"]
    assert (found.state, second["state"]) == ("passed", State.CANDIDATE)
    assert found.why == "all 14 rules hold on onnxruntime/int8, openvino/int8"
    assert found.data_set == "fashion 1"
    assert found.hardware is not None


def test_every_variant_of_the_gate_s_engines_has_every_metric(second):
    found = second["evaluation"]
    assert set(found.metrics) == {"onnxruntime/int8", "openvino/int8"}
    for metrics in found.metrics.values():
        assert set(metrics) == set(METRICS)
        assert metrics["accuracy"] > 0.88
        assert metrics["p50_ms"] <= metrics["p95_ms"] <= metrics["p99_ms"]
        assert metrics["memory_mb"] > 1
        assert metrics["throughput_per_s"] > 100
        assert metrics["fgsm"] <= metrics["accuracy"] + 0.1


def test_the_first_release_has_nothing_to_fall_behind(second):
    assert second["first"].state == "passed"
    assert second["first"].current is None
    assert any("there is no current release" in one.why for one in second["first"].rules)


def test_the_current_release_is_measured_in_the_same_run(second):
    """For openvino its onnxruntime variant, which is the nearest that it has."""
    found = second["evaluation"]
    assert found.current == "1.0.0"
    assert set(found.current_metrics) == set(found.metrics)
    timed_before = second["first"].metrics["onnxruntime/int8"]["p50_ms"]
    assert found.current_metrics["onnxruntime/int8"]["p50_ms"] != timed_before


def test_all_but_timings_comes_out_the_same(second):
    timings = {"p50_ms", "p95_ms", "p99_ms", "throughput_per_s", "memory_mb"}
    variant = "onnxruntime/int8"
    metrics = second["evaluation"].metrics[variant]
    for name in set(METRICS) - timings:
        assert metrics[name] == second["evaluation"].current_metrics[variant][name], name
        assert metrics[name] == second["first"].metrics[variant][name], name


def test_the_report_says_what_the_evaluation_says_and_more(second):
    report = Report.model_validate_json(second["report"])
    assert report.evaluation.metrics == second["evaluation"].metrics
    int8 = next(one for one in report.measured if one.variant == "onnxruntime/int8")
    assert [one.name for one in int8.quality.slices if not one.counts] == ["rare"]
    assert int8.quality.rows == sum(one.rows for one in int8.quality.bins) == 300
    assert len(int8.latency.quantiles_ms) == 101
    assert int8.robustness.gradient.queries == 8 * 2 * 16
    assert "tensorrt" in report.not_run["tensorrt/fp32"]
    assert {(one.variant, one.other) for one in report.pairs} >= {
        ("onnxruntime/int8", "reference"), ("onnxruntime/int8", "openvino/int8"),
    }  # fmt: skip


def test_the_page_stands_alone(second):
    page = second["page"].decode()
    assert page.count("<svg") == 10
    assert "<script" not in page
    for link in ("src=", "@import", 'rel="', "url(http"):
        assert link not in page
    assert "current release 1.0.0" in page
    assert "width=device-width" in page


def evaluated(folder: Path, bundle: Path, *, settings=QUICK, data=None, **gate) -> Evaluation:
    """Of the bundle, alone in its registry."""

    async def run(world: World) -> Evaluation:
        name = json.loads((bundle / "manifest.json").read_text())["name"]
        if data is not None:
            await world.add_data("data", **data)
            gate["data_set"] = "data"
        world.set_gate(name, **gate)
        version = await world.push(bundle)
        assert await world.evaluator(settings).work_once()
        found = world.newest(name, version.version)
        state = world.catalog.version(name, version.version).state
        expected = {"passed": "candidate", "failed": "rejected"}.get(found.state)
        assert expected in {state, None}
        return found

    (folder / "registry").mkdir()
    return asyncio.run(run(World(folder / "registry")))


def tiny_data(rows: int = 60) -> dict[str, np.ndarray]:
    images = np.random.default_rng(1).integers(0, 256, (rows, 4, 4), np.uint8)
    return {"inputs": images, "labels": tiny_logits(images).argmax(1).astype(np.int64)}


def test_without_a_data_set_the_golden_samples_are_it(tmp_path):
    found = evaluated(tmp_path, write_tiny_bundle(tmp_path / "b"), rules="accuracy >= 1")
    assert found.state == "passed"
    assert found.data_set is None


def test_a_rule_that_does_not_hold_rejects_with_its_figures(tmp_path):
    data = tiny_data()
    data["labels"] = (data["labels"] + 1) % 3
    found = evaluated(
        tmp_path, write_tiny_bundle(tmp_path / "b"), data=data, rules="accuracy > 0.5"
    )
    assert found.state == "failed"
    assert found.why == "onnxruntime/fp32: accuracy > 0.5: accuracy is 0, not > 0.5"


def test_changes_that_make_no_sense_are_left_out_and_a_rule_on_them_fails(tmp_path):
    found = evaluated(tmp_path, write_head(tmp_path / "b"), rules="noise > 0 and blur > 0")
    assert found.state == "failed"
    assert found.why.startswith(
        "onnxruntime/fp32: blur > 0: blur is not measured: the inputs are no images"
    )
    metrics = found.metrics["onnxruntime/fp32"]
    assert {"noise", "fgsm", "boundary"} <= set(metrics)
    assert not {"blur", "brightness"} & set(metrics)


def test_nan_at_a_boundary_value_fails_whatever_the_rules_say(tmp_path):
    found = evaluated(tmp_path, write_odd(tmp_path / "b", dividing()), data=tiny_data())
    assert found.state == "failed"
    assert "finite answers to boundary values: NaN or infinity for all least" in found.why


def test_a_variant_out_of_its_bundle_s_tolerance_fails(tmp_path):
    found = evaluated(tmp_path, write_odd(tmp_path / "odd", tiny_onnx(shift=1)))
    assert found.state == "failed"
    assert "golden samples within the bundle's tolerance" in found.why


def test_an_engine_that_is_not_here_fails_with_its_reason(tmp_path):
    bundle = write_tiny_bundle(tmp_path / "b", variants=("onnxruntime/fp32", "tensorrt/fp32"))
    found = evaluated(tmp_path, bundle, engines=("onnxruntime", "tensorrt", "openvino"))
    assert found.state == "failed"
    assert "tensorrt/fp32: runs on tensorrt: the tensorrt package is not installed" in found.why
    assert "openvino: runs on openvino: the bundle has no variant for openvino" in found.why


@pytest.mark.parametrize(
    ("graph", "limits", "said"),
    [
        (hanging, {"time_limit_s": 3.0}, r"was not done after 3 s"),
        (starving, {"memory_bytes_max": 2**30}, r"memory|alloc|died"),
    ],
)
def test_a_model_that_hangs_or_starves_fails_and_the_next_is_evaluated(
    tmp_path, graph, limits, said
):
    async def run(world: World) -> list[Evaluation]:
        world.set_gate("tiny-edge")
        await world.push(write_odd(tmp_path / "odd", graph()))
        assert await world.evaluator(QUICK.model_copy(update=limits)).work_once()
        await world.push(write_tiny_bundle(tmp_path / "good", version="1.0.1"))
        assert await world.evaluator().work_once()
        return [world.newest("tiny-edge", version) for version in ("1.0.0", "1.0.1")]

    (tmp_path / "registry").mkdir()
    odd, good = asyncio.run(run(World(tmp_path / "registry")))
    assert (odd.state, good.state) == ("failed", "passed")
    assert "runs on onnxruntime" in odd.why
    assert re.search(said, odd.why)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": np.arange(60) % 4}, "labels go up to 3"),
        ({"inputs": np.zeros((60, 4, 5), np.uint8)}, r"takes uint8[N, 4, 4]"),
        ({"inputs": np.zeros((9, 4, 4), np.uint8), "labels": np.arange(9) % 3}, "at least 20"),
    ],
)
def test_data_that_does_not_fit_breaks_the_evaluation_and_blames_no_model(tmp_path, change, said):
    found = evaluated(tmp_path, write_tiny_bundle(tmp_path / "b"), data=tiny_data() | change)
    assert found.state == "broken"
    assert said in found.why
    assert found.report_json is None


def test_a_current_release_that_cannot_be_measured_fails_what_compares_with_it(tmp_path):
    async def run(world: World) -> Evaluation:
        world.set_gate("tiny-edge", rules="accuracy >= current - 1")
        first = await world.push(write_tiny_bundle(tmp_path / "1"))
        assert await world.evaluator().work_once()
        world.release("tiny-edge", "1.0.0")
        graph = next(file for file in first.files if file.path.endswith(".onnx"))
        second = await world.push(write_tiny_bundle(tmp_path / "2", version="1.1.0", scale=11))
        await world.artifacts.collect(
            {file.sha256 for file in (*second.files, second.manifest, first.manifest)},
            dry_run=False, now=2**40,
        )  # fmt: skip
        assert graph.sha256 not in await world.artifacts.has([graph.sha256])
        assert await world.evaluator().work_once()
        return world.newest("tiny-edge", "1.1.0")

    (tmp_path / "registry").mkdir()
    found = asyncio.run(run(World(tmp_path / "registry")))
    assert found.state == "failed"
    assert "the current release's accuracy is not measured: there is no artifact" in found.why
