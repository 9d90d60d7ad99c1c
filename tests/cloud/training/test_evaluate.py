import numpy as np

from cloud.training import bundles, evaluate
from cloud.training.fashion_mnist import Split
from cloud.training.shifts import SHIFTS
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from tests.cloud.training.soft_images import soft_images
from tests.tiny_bundle import sure_image, tiny_logits, tiny_onnx

IMAGES = np.stack([sure_image(n % 3) for n in range(25)])
LABELS = np.arange(25) % 3
SESSION = OnnxRuntimeEngine().open(tiny_onnx(), OpenOptions())


def test_logits_do_not_depend_on_how_images_are_batched() -> None:
    expected = tiny_logits(IMAGES)
    for batch in (1, 10, 25, 100):
        assert np.allclose(evaluate.logits(SESSION, IMAGES, batch), expected, atol=1e-4)


def test_accuracy_is_the_share_of_winners_that_are_right() -> None:
    outputs = evaluate.logits(SESSION, IMAGES)
    assert evaluate.accuracy(outputs, LABELS) == 1
    assert evaluate.accuracy(outputs, np.where(np.arange(25) < 5, 9, LABELS)) == 0.8


def test_every_shift_has_its_figure() -> None:
    figures = evaluate.under_shifts(SESSION, Split(IMAGES, LABELS))
    assert set(figures) == set(SHIFTS)
    assert figures["contrast x 0.4"] == 1  # the brightest group stays the brightest
    assert all(0 <= figure <= 1 for figure in figures.values())


def test_what_arrives_has_sixteen_levels_and_a_price() -> None:
    noisy = np.random.default_rng(1).integers(0, 256, (10, 28, 28), np.uint8)
    arrived, payload_bytes = evaluate.as_escalated(noisy, b"")
    assert arrived.shape == noisy.shape
    assert set(np.unique(arrived)) == set(range(0, 256, 17))
    assert abs(arrived.astype(int) - noisy).max() <= 8
    assert 300 < payload_bytes < 450  # half a byte for each of 784 pixels: noise packs no better


def test_with_a_dictionary_it_costs_less_and_arrives_the_same() -> None:
    images = soft_images(1_020)
    dictionary = bundles.grey4_dictionary(images[20:])
    plain, plain_bytes = evaluate.as_escalated(images[:20], b"")
    helped, helped_bytes = evaluate.as_escalated(images[:20], dictionary)
    assert np.array_equal(plain, helped)
    assert helped_bytes < plain_bytes
