"""A real, tiny model through the real loader."""

from pathlib import Path

import numpy as np
import pytest

from cloud.serving.loading import load
from cloud.serving.model import LoadedModel, UnknownDictionary
from cloud.serving.pool_sources import Sources
from cloud.serving.settings import ModelSettings
from shared.confidence import softmax
from shared.errors import Malformed, Unavailable, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import Encoder
from tests.tiny_bundle import sure_image, tiny_logits, write_tiny_bundle

SIZE_MAX = 4


def opened(folder: Path, engine: str = "auto", **bundle: object) -> LoadedModel:
    stated = {"name": "tiny-cloud", "escalates": False, "answers_for": ("tiny-edge",), **bundle}
    path = write_tiny_bundle(folder / "bundle", **stated)  # type: ignore[arg-type]  # a test's own keywords
    sources = Sources([ModelSettings(bundle=path, engine=engine)], None, 1)  # type: ignore[arg-type]
    sources.read()
    return load(sources.all[0], size_max=SIZE_MAX, cache_dir=folder / "cache").model


def test_both_outputs_are_the_models_own(tmp_path: Path) -> None:
    model = opened(tmp_path, shift=1)
    images = np.stack([sure_image(n) for n in range(3)])
    outputs = model.predict([images[:1], images[1:]])
    expected = tiny_logits(images, shift=1)
    assert np.allclose(outputs.logits, expected, atol=1e-5)
    assert np.allclose(outputs.probabilities, softmax(expected), atol=1e-6)


def test_a_part_of_the_outputs_has_the_same_rows_in_both(tmp_path: Path) -> None:
    model = opened(tmp_path)
    images = np.stack([sure_image(n) for n in range(3)])
    part = model.predict([images])[1:3]
    assert np.allclose(part.probabilities, softmax(part.logits), atol=1e-6)
    assert np.allclose(part.logits, tiny_logits(images[1:]), atol=1e-5)
    last = part[1:]
    assert np.allclose(last.logits, tiny_logits(images[2:]), atol=1e-5)
    assert np.allclose(last.probabilities, softmax(last.logits), atol=1e-6)


def test_earlier_batches_leave_no_trace_in_later_ones_nor_the_other_way(tmp_path: Path) -> None:
    model = opened(tmp_path)
    images = [sure_image(n)[None] for n in (0, 1, 2, 1)]
    together = model.predict(images)
    kept = together.logits.copy()
    alone = np.concatenate([model.predict([image]).logits for image in images])
    assert np.allclose(kept, alone, atol=1e-6)
    assert np.array_equal(together.logits, kept)


def test_more_rows_than_the_buffer_holds_run_in_pieces(tmp_path: Path) -> None:
    model = opened(tmp_path)
    images = np.stack([sure_image(n % 3) for n in range(2 * SIZE_MAX + 1)])
    assert np.allclose(model.predict([images]).logits, tiny_logits(images), atol=1e-5)


def test_rows_of_another_shape_or_kind_are_an_error_and_not_an_answer(tmp_path: Path) -> None:
    model = opened(tmp_path)
    with pytest.raises(ValueError, match="shape"):
        model.predict([np.zeros((1, 4, 5), np.uint8)])
    with pytest.raises(TypeError, match="cast"):
        model.predict([np.zeros((1, 4, 4), np.float32)])


def test_the_curve_is_measured_for_every_size(tmp_path: Path) -> None:
    table = opened(tmp_path).curve.table_ms()
    assert list(table) == [1, 2, 4]
    assert all(ms > 0 for ms in table.values())


def test_a_shape_of_another_model_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    huge = Payload("zstd", "uint8", (10_000, 10_000), b"never read")
    with pytest.raises(Malformed, match=r"takes uint8 \[4, 4\]"):
        opened(tmp_path).decode(huge)


def test_a_dictionary_that_is_not_in_the_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownDictionary, match="0123456789abcdef"):
        opened(tmp_path).decode(Payload("grey4", "uint8", (4, 4), b"", "0123456789abcdef"))


def test_a_payload_made_with_the_bundles_dictionary_is_read(tmp_path: Path) -> None:
    dictionary = bytes(range(256)) * 4
    model = opened(tmp_path, codec="grey4", dictionary=dictionary)
    payload = Encoder("grey4", dictionary).encode(sure_image(2))
    assert np.array_equal(model.decode(payload), sure_image(2))


def test_an_engine_asked_for_by_name_and_not_in_the_bundle_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((Unknown, Unavailable), match="tensorrt"):
        opened(tmp_path, engine="tensorrt")
