"""Training and serving see the same bytes and give the same answers, or it is said."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Gauge

from cloud.feedback.database import FeedbackDatabase
from cloud.feedback.documents import Deletion, SampleQuery
from cloud.learning.documents import LoopSettings
from cloud.learning.feature_check import Checked, check
from cloud.learning.feature_checking import FeatureChecking, FeatureChecks
from cloud.learning.metrics import LearningMetrics
from cloud.learning.models import Models
from cloud.learning.payloads import Payloads
from cloud.learning.serving import Served
from cloud.learning.settings import Serving
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.settings import LoopsKept
from cloud.training.store.database import LearningDatabase
from shared.bundle.reader import open_bundle
from shared.confidence import softmax
from shared.errors import Conflict, Disconnected, Unknown
from shared.wire.envelope import Payload
from tests.cloud.feedback.world import NOW, World, row, world
from tests.cloud.registry.client.scripted_server import ok, scripted
from tests.cloud.workers import cloud_bundle, worker
from tests.tiny_bundle import sure_image, tiny_logits, write_tiny_bundle

IMAGES = [sure_image(0), sure_image(1)]
HERE = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)


def seen(**changes: object) -> Checked:
    base: dict[str, object] = {
        "training": IMAGES, "serving": IMAGES, "here": HERE, "served": HERE + np.float32(0.01),
        "stored_labels": np.array([0, 1]), "stored_confidence": np.array([0.9, 0.8], np.float32),
    }  # fmt: skip
    return Checked(**(base | changes))  # type: ignore[arg-type]  # by name


def test_what_is_the_same_agrees() -> None:
    found = check("tiny-cloud", "2.0.0", 5.0, seen(), 0.05)
    assert (found.agrees, found.inputs_differ, found.answers_differ) == (True, 0, 0)
    assert found.largest == pytest.approx(0.01, abs=1e-6)


def test_one_other_byte_is_named() -> None:
    other = IMAGES[1].copy()
    other[0, 0] ^= 1
    found = check("tiny-cloud", "2.0.0", 5.0, seen(serving=[IMAGES[0], other]), 0.05)
    assert (found.agrees, found.inputs_differ) == (False, 1)
    assert found.words.startswith("1 of 2 samples are other bytes")


@pytest.mark.parametrize("how", ["shape", "dtype"])
def test_the_same_bytes_of_another_shape_or_type_are_another_input(how: str) -> None:
    other: NDArray[np.generic] = (
        IMAGES[1].reshape(16) if how == "shape" else IMAGES[1].astype(np.int8, copy=False)
    )
    found = check("tiny-cloud", "2.0.0", 5.0, seen(serving=[IMAGES[0], other]), 0.05)
    assert found.inputs_differ == 1


def test_a_worker_that_answers_otherwise_now_is_named() -> None:
    found = check("tiny-cloud", "2.0.0", 5.0, seen(served=HERE[::-1]), 0.05)
    assert (found.agrees, found.answers_differ) == (False, 2)
    assert found.largest == pytest.approx(0.7)


def test_answers_that_were_stored_otherwise_are_named() -> None:
    stored = np.array([0.9, 0.3], np.float32)
    found = check("tiny-cloud", "2.0.0", 5.0, seen(stored_confidence=stored, served=None), 0.05)
    assert not found.agrees
    assert found.largest == pytest.approx(0.5)


def test_a_difference_that_is_no_number_is_the_largest() -> None:
    served = HERE.copy()
    served[0, 0] = math.nan
    found = check("tiny-cloud", "2.0.0", 5.0, seen(served=served), 0.05)
    assert (found.agrees, found.largest) == (False, 1.0)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(f"sqlite:///{tmp_path / 'feedback.db'}", tmp_path) as found:
        yield found


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[LoopStore]:
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    database.open(MIGRATIONS)
    yield LoopStore(database, LoopsKept())
    database.close()


class Flipped:
    """A worker's decoding with a fault."""

    def __init__(self, wire: Payloads) -> None:
        self._wire = wire

    def payload(self, device: str, sample: str) -> Payload:
        found = self._wire.payload(device, sample)
        turned = np.frombuffer(found.data, np.uint8).reshape(found.shape)[::-1].tobytes()
        return Payload(found.codec, found.dtype, found.shape, turned, found.dictionary)


@pytest.fixture
def checking(here: World, loops: LoopStore, tmp_path: Path) -> Iterator[FeatureChecking]:
    write_tiny_bundle(tmp_path / "bundles" / "tiny-cloud", name="tiny-cloud", version="2.0.0")
    models = Models((tmp_path / "bundles",), None, tmp_path / "state")
    wire = Payloads(FeedbackDatabase(here.url))
    yield FeatureChecking(
        loops, here.store, wire, models, None, FeatureChecks(samples=8),
        LearningMetrics(CollectorRegistry()), lambda: 5.0,
    )  # fmt: skip
    wire.close()


def replaced(checking: FeatureChecking, served: Served, settings: FeatureChecks) -> FeatureChecking:
    """The same, that asks `served`."""
    return FeatureChecking(
        checking._store, checking._feedback, checking._wire, checking._models, served, settings,
        checking._metrics, checking._now,
    )  # fmt: skip


def write(here: World, count: int, *, temperature: float) -> None:
    """Samples with the answers that the tiny cloud model gives, of labels 0 to 2 by turns."""
    images = np.stack([sure_image(number % 3) for number in range(count)])
    sure = softmax(tiny_logits(images), temperature).max(1)
    here.write(*(
        row(number, label=number % 3, sure=float(sure[number]),
            payload=Payload("raw", "uint8", (4, 4), images[number].tobytes()))
        for number in range(count)
    ))  # fmt: skip


def test_newest_samples_through_both_ways_agree_and_are_kept(
    here: World, checking: FeatureChecking, loops: LoopStore, tmp_path: Path
) -> None:
    bundle = asyncio.run(
        Models((tmp_path / "bundles",), None, tmp_path / "s").bundle("tiny-cloud", "2.0.0")
    )
    write(here, 20, temperature=bundle.manifest.calibration.temperature)
    found = asyncio.run(checking.check("tiny-cloud"))
    assert found.agrees, found
    assert (found.samples, found.version, found.at) == (8, "2.0.0", 5.0)
    assert loops.checks() == [found]


def test_a_worker_that_decodes_otherwise_is_found_and_counted(
    here: World, checking: FeatureChecking, loops: LoopStore
) -> None:
    loops.put(LoopSettings(model="tiny-edge", teacher="tiny-cloud"), None, 1.0)
    write(here, 4, temperature=1.0)
    checking._wire = Flipped(checking._wire)  # type: ignore[arg-type]  # the seam that is tested
    found = asyncio.run(checking.check("tiny-cloud"))
    assert found.inputs_differ > 0
    assert not loops.checks()[0].agrees
    assert checking._metrics.checks_failed._value.get() == 1
    assert asyncio.run(checking.failed()) == 1


def test_a_teacher_whose_loop_is_gone_is_counted_no_more(
    here: World, checking: FeatureChecking, loops: LoopStore
) -> None:
    failed, unmade = checking._metrics.checks_failed._value, checking._metrics.checks_unmade._value
    kept = loops.put(LoopSettings(model="tiny-edge", teacher="tiny-cloud"), None, 1.0)
    write(here, 4, temperature=1.0)
    checking._wire = Flipped(checking._wire)  # type: ignore[arg-type]  # the seam that is tested
    asyncio.run(checking.check("tiny-cloud"))
    checking._served = Served(Serving(urls=("http://127.0.0.1:9",)))
    with pytest.raises(Disconnected):
        asyncio.run(checking.check("tiny-cloud"))
    assert (failed.get(), unmade.get()) == (1, 1)
    loops.put(LoopSettings(model="tiny-edge", teacher="other-cloud"), kept.revision, 2.0)
    with pytest.raises(Unknown):
        asyncio.run(checking.check("other-cloud"))
    assert (failed.get(), unmade.get()) == (0, 0)
    with pytest.raises(Disconnected):  # whoever asks for it: no loop has it
        asyncio.run(checking.check("tiny-cloud"))
    assert (failed.get(), unmade.get(), asyncio.run(checking.failed())) == (0, 0, 0)


def test_a_teacher_that_has_no_samples_any_more_is_counted_no_more(
    here: World, checking: FeatureChecking, loops: LoopStore
) -> None:
    loops.put(LoopSettings(model="tiny-edge", teacher="tiny-cloud"), None, 1.0)
    write(here, 4, temperature=1.0)
    checking._served = Served(Serving(urls=("http://127.0.0.1:9",)))
    with pytest.raises(Disconnected):
        asyncio.run(checking.check("tiny-cloud"))
    here.store.delete(Deletion(until=NOW + 1, comment=""), "ops", NOW)
    with pytest.raises(Unknown):
        asyncio.run(checking.check("tiny-cloud"))
    assert checking._metrics.checks_unmade._value.get() == 0


def test_answers_of_another_graph_are_found(here: World, checking: FeatureChecking) -> None:
    here.write(*(
        row(number, label=0, sure=0.99,
            payload=Payload("raw", "uint8", (4, 4), sure_image(1).tobytes()))
        for number in range(4)
    ))  # fmt: skip
    found = asyncio.run(checking.check("tiny-cloud"))
    assert (found.agrees, found.inputs_differ, found.answers_differ) == (False, 0, 4)


class ComesBack(Served):
    """A worker that is away when it is asked first, and has no answer of its own."""

    def __init__(self) -> None:
        self.asked = 0
        self.answered = asyncio.Event()

    async def probabilities(
        self, model: str, version: str, batch: NDArray[np.generic]
    ) -> NDArray[np.float32]:
        self.asked += 1
        if self.asked == 1:
            raise Disconnected("nobody listens")
        self.answered.set()
        return softmax(tiny_logits(batch.astype(np.uint8)), 1.0)


def test_a_check_that_met_nobody_is_made_again_soon(
    here: World, checking: FeatureChecking, loops: LoopStore
) -> None:
    loops.put(LoopSettings(model="tiny-edge", teacher="tiny-cloud"), None, 1.0)
    write(here, 8, temperature=1.0)
    served = ComesBack()
    again = replaced(checking, served, FeatureChecks(samples=8, every_s=3600.0, again_s=0.01))

    async def main() -> None:
        running = asyncio.create_task(again.run())
        async with asyncio.timeout(30):
            await served.answered.wait()
            async with again._one:  # that check has ended
                running.cancel()

    asyncio.run(main())
    assert len(loops.checks()) == 1
    assert served.asked == 2


def test_without_samples_there_is_nothing_to_check(checking: FeatureChecking) -> None:
    with pytest.raises(Unknown, match="no sample that tiny-cloud answered"):
        asyncio.run(checking.check("tiny-cloud"))


def test_samples_of_another_shape_are_refused(here: World, checking: FeatureChecking) -> None:
    here.write(row(1, payload=Payload("raw", "uint8", (2, 2), bytes(4))))
    with pytest.raises(Conflict, match="its graph takes"):
        asyncio.run(checking.check("tiny-cloud"))


def test_a_check_that_cannot_be_made_is_counted_and_what_was_found_holds_on(
    here: World, checking: FeatureChecking, loops: LoopStore
) -> None:
    loops.put(LoopSettings(model="tiny-edge", teacher="tiny-cloud"), None, 1.0)
    unmade = checking._metrics.checks_unmade._value
    with pytest.raises(Unknown):
        asyncio.run(checking.check("tiny-cloud"))
    assert unmade.get() == 0  # there is nothing to check
    write(here, 4, temperature=1.0)
    found = asyncio.run(checking.check("tiny-cloud"))
    away = replaced(checking, Served(Serving(urls=("http://127.0.0.1:9",))), FeatureChecks())
    with pytest.raises(Disconnected):
        asyncio.run(away.check("tiny-cloud"))
    assert unmade.get() == 1
    assert loops.checks() == [found]
    away._served = None
    asyncio.run(away.check("tiny-cloud"))
    assert unmade.get() == 0


class Told(Gauge):
    """Whose tests wait for its first value."""

    told: asyncio.Event

    def set(self, value: float) -> None:
        super().set(value)
        self.told.set()


def test_what_a_process_before_found_is_counted_before_anything_is_checked(
    checking: FeatureChecking, loops: LoopStore
) -> None:
    loops.put(LoopSettings(model="tiny-edge", teacher="tiny-cloud"), None, 1.0)
    loops.put_check(check("tiny-cloud", "2.0.0", 5.0, seen(served=HERE[::-1]), 0.05))

    async def main() -> None:
        gauge = checking._metrics.checks_failed = Told("failed", "failed", registry=None)
        gauge.told = asyncio.Event()
        running = asyncio.create_task(checking.run())
        async with asyncio.timeout(30):
            await gauge.told.wait()
        running.cancel()
        assert gauge._value.get() == 1

    asyncio.run(main())


def test_a_worker_that_is_not_there_is_said() -> None:
    served = Served(Serving(urls=("http://127.0.0.1:9",)))
    with pytest.raises(Disconnected, match=r"127\.0\.0\.1:9"):
        asyncio.run(served.probabilities("tiny-cloud", "2.0.0", np.stack(IMAGES)))


def test_a_worker_that_is_not_there_has_the_next_url_asked() -> None:
    described = ok({"inputs": [{"name": "image"}]})
    answered = ok({"outputs": [{"name": "probabilities", "data": HERE.ravel().tolist()}]})

    async def main() -> None:
        async with scripted(described, answered) as server:
            served = Served(Serving(urls=("http://127.0.0.1:9", server.url)))
            found = await served.probabilities("tiny-cloud", "2.0.0", np.stack(IMAGES))
        assert found.tolist() == HERE.tolist()
        with pytest.raises(Disconnected, match=r"127\.0\.0\.1:9.*; http://127\.0\.0\.1:"):
            await served.probabilities("tiny-cloud", "2.0.0", np.stack(IMAGES))

    asyncio.run(main())


def test_a_real_worker_answers_what_its_graph_gives(tmp_path: Path) -> None:
    with worker(tmp_path, "--broker-port", "0", "--api-port", "0") as running:
        served = Served(Serving(urls=(running.ready().api,)))
        images = np.stack([*IMAGES, sure_image(2)])
        bundle = open_bundle(cloud_bundle(tmp_path))
        version = bundle.manifest.version
        found = asyncio.run(served.probabilities("tiny-cloud", version, images))
        temperature = bundle.manifest.calibration.temperature
        assert np.abs(found - softmax(tiny_logits(images, shift=1), temperature)).max() < 0.05
        with pytest.raises(Unknown, match="does not serve it"):
            asyncio.run(served.probabilities("tiny-cloud", "9.9.9", images))


def test_payloads_are_what_came(here: World) -> None:
    here.write(row(7))
    wire = Payloads(FeedbackDatabase(here.url))
    (one,), _ = here.store.samples(SampleQuery())
    assert wire.payload(one.device, one.id).data == bytes([7]) * 16
    with pytest.raises(Unknown):
        wire.payload("nobody", one.id)
    wire.close()


@pytest.mark.parametrize(
    "served", [np.full((2, 3), 1 / 3, np.float32), np.full((1, 2), 0.5, np.float32)]
)
def test_a_worker_of_another_number_of_classes_answers_otherwise(
    served: NDArray[np.float32],
) -> None:
    found = check("tiny-cloud", "2.0.0", 5.0, seen(served=served), 0.05)
    assert (found.agrees, found.answers_differ, found.largest) == (False, 2, 1.0)


@pytest.mark.parametrize("label", [2, -1])
def test_a_stored_label_that_the_graph_does_not_have_is_another_answer(label: int) -> None:
    found = check("tiny-cloud", "2.0.0", 5.0, seen(stored_labels=np.array([0, label])), 0.05)
    assert (found.agrees, found.answers_differ, found.largest) == (False, 1, 1.0)
