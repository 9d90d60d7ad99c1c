from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.bundle.manifest import Manifest
from shared.bundle.reader import Bundle, open_bundle
from shared.engines.engine import Absent, TensorInfo
from shared.engines.known import known_engines
from shared.engines.ranking import Choice, NoChoice, choose
from shared.errors import Malformed, Unavailable, Unknown
from tests.shared.engines.fake_engine import Clock, FakeEngine
from tests.tiny_bundle import rewrite_manifest, write_tiny_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    keys = ("onnxruntime/int8", "onnxruntime/fp32", "openvino/int8")
    return open_bundle(write_tiny_bundle(tmp_path / "bundle", variants=keys))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reasons(choice: Choice | NoChoice) -> dict[str, str]:
    return {verdict.variant.key: verdict.reason for verdict in choice.verdicts}


def test_the_fastest_that_passes_is_chosen_and_the_others_say_why_not(
    bundle: Bundle, clock: Clock
) -> None:
    slow = FakeEngine("onnxruntime", clock, run_s=0.002)
    fast = FakeEngine("openvino", clock, run_s=0.001)
    choice = choose(bundle, [slow, fast], now=clock)
    assert choice.variant.key == "openvino/int8"
    assert choice.reason == "fastest of 3 that pass the golden samples: 1.000 ms at batch 1"
    assert reasons(choice)["onnxruntime/fp32"] == "slower: 2.000 ms at batch 1"
    assert [verdict.chosen for verdict in choice.verdicts] == [False, False, True]
    assert [session.closed for session in slow.opened] == [True, True]
    assert [session.closed for session in fast.opened] == [False]


def test_a_fast_variant_that_differs_is_refused_with_the_figures(
    bundle: Bundle, clock: Clock
) -> None:
    sound = FakeEngine("onnxruntime", clock, run_s=0.002)
    wrong = FakeEngine("openvino", clock, run_s=0.001, bend=lambda logits: logits + 0.75)
    choice = choose(bundle, [sound, wrong], now=clock)
    assert choice.variant.engine == "onnxruntime"
    assert reasons(choice)["openvino/int8"] == (
        "answers differ from the reference: largest difference 0.75 (tolerance 0.5), "
        "same winner on 100.0% (at least 90.0%)"
    )
    assert wrong.opened[0].closed


def flip_two(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Swap the winner on the first two of every eight samples, within the tolerance."""
    bent = logits.copy()
    for row in bent[:2]:
        first, second = row.argsort()[::-1][:2]
        row[first], row[second] = row[second], row[first]
    return bent


def test_agreement_alone_refuses(tmp_path: Path, clock: Clock) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=("openvino/int8",), scale=12.0)
    manifest = open_bundle(folder).manifest
    wide = manifest.golden.model_copy(update={"tolerance": {"int8": 100.0}})
    rewrite_manifest(folder, manifest.model_copy(update={"golden": wide}))
    engine = FakeEngine("openvino", clock, bend=flip_two)
    with pytest.raises(NoChoice, match=r"same winner on 75\.0% \(at least 90\.0%\)"):
        choose(open_bundle(folder), [engine], now=clock)


def test_nan_answers_are_infinitely_far(bundle: Bundle, clock: Clock) -> None:
    broken = FakeEngine("openvino", clock, bend=lambda logits: logits * np.float32("nan"))
    with pytest.raises(NoChoice, match="largest difference inf"):
        choose(bundle, [broken], wanted="openvino", now=clock)


def test_asking_by_name_tries_nothing_else(bundle: Bundle, clock: Clock) -> None:
    slow = FakeEngine("onnxruntime", clock, run_s=0.002)
    fast = FakeEngine("openvino", clock, run_s=0.001)
    choice = choose(bundle, [slow, fast], wanted="onnxruntime/fp32", now=clock)
    assert choice.variant.key == "onnxruntime/fp32"
    assert choice.reason.startswith("asked for as onnxruntime/fp32, and passes")
    assert reasons(choice)["openvino/int8"] == "not asked for: only onnxruntime/fp32 was"
    assert fast.probes == 0
    assert not fast.opened


def test_asking_by_name_and_not_getting_it_is_an_error(bundle: Bundle, clock: Clock) -> None:
    sound = FakeEngine("onnxruntime", clock)
    absent = FakeEngine("openvino", clock, found=Absent("no device here; plug one in"))
    with pytest.raises(Unavailable, match="openvino/int8: no device here; plug one in"):
        choose(bundle, [sound, absent], wanted="openvino", now=clock)


def test_asking_for_what_the_bundle_does_not_have(bundle: Bundle, clock: Clock) -> None:
    with pytest.raises(Unknown, match="no variant for 'tensorrt'; it has onnxruntime/int8, "):
        choose(bundle, [FakeEngine("onnxruntime", clock)], wanted="tensorrt", now=clock)


def test_an_absent_engine_leaves_the_next(bundle: Bundle, clock: Clock) -> None:
    sound = FakeEngine("onnxruntime", clock)
    choice = choose(bundle, [sound], now=clock)
    assert choice.variant.engine == "onnxruntime"
    assert reasons(choice)["openvino/int8"] == "this program was not given the engine openvino"


def test_nothing_can_run_says_why_for_each(bundle: Bundle, clock: Clock) -> None:
    engines = [
        FakeEngine("onnxruntime", clock, fails=Malformed("graph is broken; rebuild it")),
        FakeEngine("openvino", clock, found=Absent("not installed")),
    ]
    with pytest.raises(NoChoice) as refusal:
        choose(bundle, engines, now=clock)
    assert "onnxruntime/int8: graph is broken; rebuild it" in str(refusal.value)
    assert "openvino/int8: not installed" in str(refusal.value)
    assert len(refusal.value.verdicts) == 3


def test_a_bug_in_an_engine_is_not_swallowed_and_closes_what_was_opened(
    bundle: Bundle, clock: Clock
) -> None:
    sound = FakeEngine("onnxruntime", clock)
    with pytest.raises(ZeroDivisionError):
        choose(bundle, [sound, FakeEngine("openvino", clock, fails=ZeroDivisionError())], now=clock)
    assert [session.closed for session in sound.opened] == [True, True]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (TensorInfo("image", "float32", (None, 4, 4)), "'image' is float32[N, 4, 4], the bundle"),
        (TensorInfo("image", "uint8", (None, 5, 4)), "'image' is uint8[N, 5, 4], the bundle says"),
        (TensorInfo("picture", "uint8", (None, 4, 4)), "'picture' is uint8[N, 4, 4], the bundle"),
        (TensorInfo("image", "uint8", (1, 4, 4)), "'image' is uint8[1, 4, 4], the bundle says"),
    ],
)
def test_a_graph_that_is_not_the_manifests(
    bundle: Bundle, clock: Clock, found: TensorInfo, said: str
) -> None:
    with pytest.raises(NoChoice) as refusal:
        choose(bundle, [FakeEngine("openvino", clock, input=found)], wanted="openvino", now=clock)
    assert said in str(refusal.value)
    assert "variants/model.onnx (openvino/int8)" in str(refusal.value)


def test_a_graph_with_another_number_of_outputs(
    bundle: Bundle, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine("openvino", clock)
    monkeypatch.setattr("tests.shared.engines.fake_engine.FakeSession.outputs", ())
    with pytest.raises(NoChoice, match="has 0 outputs, the bundle says 1"):
        choose(bundle, [engine], wanted="openvino", now=clock)


@pytest.mark.parametrize("batch_max", [1, 3, 64])
def test_no_batch_is_over_what_the_engine_was_opened_for(
    bundle: Bundle, clock: Clock, batch_max: int
) -> None:
    choice = choose(bundle, [FakeEngine("openvino", clock)], batch_max=batch_max, now=clock)
    assert choice.variant.key == "openvino/int8"


def test_timing_is_bounded(bundle: Bundle, clock: Clock) -> None:
    glacial = FakeEngine("openvino", clock, run_s=5.0)
    choice = choose(bundle, [glacial], measure_s_max=1.0, now=clock)
    assert glacial.opened[0].runs == 2 + 3  # two golden batches, then the least that is timed
    assert choice.reason.endswith("5000.000 ms at batch 1")


def need(manifest: Manifest, runtime: dict[str, str]) -> Manifest:
    variants = (manifest.variants[0].model_copy(update={"runtime": runtime}),)
    return manifest.model_copy(update={"variants": variants})


def test_runtime_versions_are_checked_before_opening(tmp_path: Path, clock: Clock) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    manifest = open_bundle(folder).manifest
    rewrite_manifest(folder, need(manifest, {"numpy": "<1"}))
    engine = FakeEngine("onnxruntime", clock)
    with pytest.raises(NoChoice, match=r"needs numpy <1; .* is installed"):
        choose(open_bundle(folder), [engine], now=clock)
    assert not engine.opened


def test_the_real_engines_on_a_real_graph(tmp_path: Path) -> None:
    keys = ("onnxruntime/fp32", "tensorrt/fp16")
    choice = choose(
        open_bundle(write_tiny_bundle(tmp_path / "bundle", variants=keys)), known_engines()
    )
    assert choice.variant.key == "onnxruntime/fp32"
    image: Any = np.zeros((1, 4, 4), np.uint8)
    assert choice.session.run(image).shape == (1, 3)
    choice.session.close()
    assert "tensorrt" in reasons(choice)["tensorrt/fp16"]
