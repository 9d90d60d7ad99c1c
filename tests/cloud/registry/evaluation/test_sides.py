import pytest

from cloud.registry.evaluation.sides import counterpart, under_gate
from shared.bundle.reader import open_bundle
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture
def manifest(tmp_path):
    made = iter(range(100))

    def make(*variants):
        return open_bundle(
            write_tiny_bundle(tmp_path / str(next(made)), variants=variants)
        ).manifest

    return make


def test_every_variant_of_the_gate_s_engines_is_under_it(manifest):
    found = under_gate(
        manifest("onnxruntime/int8", "openvino/int8", "onnxruntime/fp32"), ("onnxruntime",)
    )
    assert [one.key for one in found] == ["onnxruntime/int8", "onnxruntime/fp32"]


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ("openvino/int8", ("onnxruntime/int8", "openvino/int8"), "openvino/int8"),
        ("openvino/int8", ("onnxruntime/int8", "openvino/fp32"), "openvino/fp32"),
        ("openvino/int8", ("onnxruntime/fp32", "onnxruntime/int8"), "onnxruntime/int8"),
        ("openvino/int8", ("tensorrt/int8", "onnxruntime/int8"), "onnxruntime/int8"),
        ("openvino/int8", ("tensorrt/fp32",), "tensorrt/fp32"),
    ],
)
def test_the_nearest_variant_of_the_current_release_stands_beside(manifest, mine, theirs, expected):
    (variant,) = manifest(mine).variants
    found = counterpart(variant, manifest(*theirs), ("openvino", "onnxruntime"))
    assert found.key == expected
