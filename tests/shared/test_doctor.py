import json
from pathlib import Path

import numpy as np

from shared import doctor
from shared.engines.engine import Absent
from tests.shared.engines.fake_engine import Clock, FakeEngine
from tests.tiny_bundle import write_tiny_bundle


def engines(clock: Clock) -> list[FakeEngine]:
    return [
        FakeEngine("onnxruntime", clock),
        FakeEngine("tensorrt", clock, found=Absent("no NVIDIA driver here; install it")),
    ]


def test_engines_alone() -> None:
    found = doctor.report(engines=engines(Clock()))
    assert found.healthy
    assert found.bundle is None
    text = doctor.render(found)
    assert "+ onnxruntime  1.0 on CPU" in text
    assert "- tensorrt     cannot run: no NVIDIA driver here; install it" in text


def test_no_engine_at_all_is_unhealthy() -> None:
    assert not doctor.report(engines=engines(Clock())[1:]).healthy


def test_a_bundle_is_ranked_and_every_variant_explained(tmp_path: Path) -> None:
    keys = ("onnxruntime/fp32", "tensorrt/fp16")
    folder = write_tiny_bundle(tmp_path / "bundle", variants=keys)
    fakes = engines(Clock())
    found = doctor.report(folder, engines=fakes)
    assert found.healthy
    assert found.bundle is not None
    assert found.bundle.chosen == "onnxruntime/fp32"
    assert found.bundle.model == "tiny-edge 1.0.0"
    assert [variant.chosen for variant in found.bundle.variants] == [True, False]
    assert found.bundle.variants[1].reason == "no NVIDIA driver here; install it"
    assert fakes[0].opened[0].closed
    assert "- tensorrt/fp16        no NVIDIA driver here" in doctor.render(found)


def test_nothing_can_run_is_unhealthy_and_explained(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", variants=("tensorrt/fp16",))
    found = doctor.report(folder, engines=engines(Clock()))
    assert not found.healthy
    assert found.bundle is not None
    assert found.bundle.chosen == ""
    assert found.bundle.variants[0].reason == "no NVIDIA driver here; install it"
    assert "chosen       nothing: " in doctor.render(found)


def test_a_bad_bundle_is_reported_not_raised(tmp_path: Path) -> None:
    found = doctor.report(tmp_path / "nothing.hyb", engines=engines(Clock()))
    assert not found.healthy
    assert found.bundle is not None
    assert "there is no such bundle" in found.bundle.reason


def test_a_named_engine_that_the_bundle_does_not_have(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    found = doctor.report(folder, engine="openvino", engines=engines(Clock()))
    assert not found.healthy
    assert found.bundle is not None
    assert "no variant for 'openvino'" in found.bundle.reason


def test_json_is_strict_even_for_answers_that_are_not_numbers(tmp_path: Path) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle")
    broken = FakeEngine("onnxruntime", Clock(), bend=lambda logits: logits * np.float32("nan"))

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = doctor.as_json(doctor.report(folder, engines=[broken]))
    tree = json.loads(text, parse_constant=refuse)
    assert tree["healthy"] is False
    assert tree["bundle"]["variants"][0]["difference_max"] is None
    assert tree["bundle"]["variants"][0]["agreement"] is not None
