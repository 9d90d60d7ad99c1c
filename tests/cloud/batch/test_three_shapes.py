"""The same bundle, the same images: offline, near-line and the bare engine say the same."""

import asyncio
import json
from pathlib import Path

import numpy as np

from cloud.batch.offline import Order, run
from shared.bundle.reader import open_bundle
from shared.confidence import softmax
from shared.engines.known import known_engines
from shared.engines.ranking import choose
from tests.cloud.batch.images import lines, npz
from tests.cloud.batch.serving import serving
from tests.cloud.batch.test_near_line import T0, job, near_line
from tests.cloud.serving.pools import FASHION_CLOUD, fashion

TOLERANCE = 1e-4
"""Of a probability. int8 graphs end in float32 arithmetic whose order depends on the batch."""


def test_offline_near_line_and_engine_agree(tmp_path: Path) -> None:
    images = np.load(FASHION_CLOUD.parent / "fashion-mnist-test-2000.npz")["images"][:200]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "images.npz").write_bytes(npz(images=images))
    path = fashion(tmp_path, "1.0.0")  # with one variant only, so that all shapes run the same
    bundle = open_bundle(path)
    choice = choose(bundle, known_engines(), wanted="onnxruntime/int8")
    direct = softmax(choice.session.run(images), bundle.manifest.calibration.temperature)
    choice.session.close()

    order = Order(
        source=str(tmp_path / "in"), out=tmp_path / "offline", bundle=path,
        engine="onnxruntime/int8", probabilities=True,
    )  # fmt: skip
    asyncio.run(run(order, lambda _: None, asyncio.Event()))

    async def window() -> None:
        async with serving(tmp_path, path) as at:
            settings = job(tmp_path, model="fashion-cloud", probabilities=True, batch_rows=16)
            assert await near_line(at, settings)._window(T0) == "complete"

    asyncio.run(window())
    labels = [bundle.manifest.labels[index] for index in direct.argmax(axis=1)]
    for out in ("offline", "out"):
        said = lines(tmp_path / out)
        assert [line["label"] for line in said] == labels, out
        found = np.array([line["probabilities"] for line in said])
        assert np.abs(found - direct).max() < TOLERANCE, out
    assert json.loads((tmp_path / "offline/_SUCCESS.json").read_text())["rows"] == 200
