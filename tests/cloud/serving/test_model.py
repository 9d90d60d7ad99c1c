"""A real, tiny model through the real loader."""

from pathlib import Path

import numpy as np
import pytest

from cloud.config import Batching, ModelSettings
from cloud.serving.catalog import Catalog, Served
from cloud.serving.loading import load
from cloud.serving.model import UnknownDictionary
from shared.confidence import softmax
from shared.errors import Malformed, Unavailable, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import Encoder
from tests.tiny_bundle import sure_image, tiny_logits, write_tiny_bundle


def served(folder: Path, **bundle: object) -> Served:
    settings = {"name": "tiny-cloud", "escalates": False, "answers_for": ("tiny-edge",), **bundle}
    path = write_tiny_bundle(folder / "bundle", **settings)  # type: ignore[arg-type]  # a test's own keywords
    model = ModelSettings(bundle=path)
    return load(model, Batching(size_max=4, depth_max=4), folder / "cache", lambda _n, _s: None)


def test_probabilities_are_the_models_own_calibrated(tmp_path: Path) -> None:
    model = served(tmp_path, shift=1).model
    images = np.stack([sure_image(n) for n in range(3)])
    assert np.allclose(
        model.predict(list(images)), softmax(tiny_logits(images, shift=1)), atol=1e-6
    )


def test_a_batch_of_one_and_of_many_agree_and_earlier_batches_leave_no_trace(
    tmp_path: Path,
) -> None:
    model = served(tmp_path).model
    images = [sure_image(n) for n in (0, 1, 2, 1)]
    together = model.predict(images)
    alone = [model.predict([image])[0] for image in images]
    assert np.allclose(together, alone, atol=1e-6)


def test_the_curve_is_measured_for_every_size(tmp_path: Path) -> None:
    table = served(tmp_path).model.curve.table_ms()
    assert list(table) == [1, 2, 4]
    assert all(ms > 0 for ms in table.values())


def test_a_shape_of_another_model_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    model = served(tmp_path).model
    huge = Payload("zstd", "uint8", (10_000, 10_000), b"never read")
    with pytest.raises(Malformed, match=r"takes uint8 \[4, 4\]"):
        model.decode(huge)


def test_a_dictionary_that_is_not_in_the_bundle_is_named(tmp_path: Path) -> None:
    model = served(tmp_path).model
    with pytest.raises(UnknownDictionary, match="0123456789abcdef"):
        model.decode(Payload("grey4", "uint8", (4, 4), b"", "0123456789abcdef"))


def test_a_payload_made_with_the_bundles_dictionary_is_read(tmp_path: Path) -> None:
    dictionary = bytes(range(256)) * 4
    model = served(tmp_path, codec="grey4", dictionary=dictionary).model
    payload = Encoder("grey4", dictionary).encode(sure_image(2))
    assert np.array_equal(model.decode(payload), sure_image(2))


def test_an_engine_asked_for_by_name_and_not_in_the_bundle_is_an_error(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "bundle", escalates=False)
    settings = ModelSettings(bundle=path, engine="tensorrt")
    with pytest.raises((Unknown, Unavailable), match="tensorrt"):
        load(settings, Batching(), tmp_path, lambda _n, _s: None)


def test_the_catalog_maps_edge_models_and_names_what_it_has(tmp_path: Path) -> None:
    one = served(tmp_path)
    catalog = Catalog([one])
    assert catalog.answering("tiny-edge") is one
    assert catalog.answering("tiny-cloud") is one
    with pytest.raises(Unknown, match=r"'other'; there are tiny-cloud, tiny-edge"):
        catalog.answering("other")


def test_two_models_for_one_edge_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    models = [served(tmp_path / "a", name="a"), served(tmp_path / "b", name="b")]
    with pytest.raises(Malformed, match="both answer for 'tiny-edge'"):
        Catalog(models)
