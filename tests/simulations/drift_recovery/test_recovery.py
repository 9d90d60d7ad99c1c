"""What is measured of a fine-tune, and what a device would have sent for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud.training.recipes.ground import answering
from cloud.training.shifts import shift
from shared.bundle.reader import open_bundle
from simulations.drift_recovery import __main__ as bench
from simulations.drift_recovery import data_set
from simulations.drift_recovery.recovery import Recovery, default_recipe
from simulations.drift_recovery.stream import sent

MODELS = Path(__file__).parents[3] / "models"
GOOD = Recovery(
    kind="noise 30", seed=0, sent=100, teacher=0.9, clean_before=0.93, clean_after=0.925,
    before=0.60, after=0.88, escalated_before=0.7, escalated_after=0.3, cpu_s=40.0,
)  # fmt: skip


def test_regained_is_a_share_of_what_was_lost() -> None:
    assert GOOD.regained == pytest.approx(0.28 / 0.33)
    assert bench.missed([GOOD]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"after": 0.75}, "regained 45.5%, at least 55%"),
        ({"clean_after": 0.92}, "clean lost 1.00%, at most 0.7%"),
        ({"cpu_s": 61.0}, "61 s of CPU"),
        ({"after": 0.83}, "mean regained 69.7%, at least 80%"),
    ],
)
def test_a_missed_target_is_named(change: dict[str, float], words: str) -> None:
    assert words in " ".join(bench.missed([replace(GOOD, **change)]))


def test_a_seed_changes_nothing_else_of_the_recipe() -> None:
    one, other = default_recipe(0), default_recipe(7)
    assert other.fitting.seed == 7
    assert other.fitting.model_copy(update={"seed": 0}) == one.fitting


def test_a_device_sends_what_is_novel_and_the_shares_are_true() -> None:
    images = np.load(MODELS / "fashion-mnist-test-2000.npz")["images"][:400]
    edge = answering(open_bundle(MODELS / "fashion-edge"))
    clean = sent(edge, images, 1)
    assert len(clean.chosen) < 0.3 * len(images)
    faulty = sent(edge, shift(images, "camera fault"), 1)
    assert len(faulty.chosen) > 0.9 * len(images)
    assert set(clean.shares.tolist()) <= {1.0, float(np.float32(0.01))}


def test_a_data_set_has_a_row_for_each_sent_sample() -> None:
    images = np.load(MODELS / "fashion-mnist-test-2000.npz")["images"][:40]
    edge, cloud = (answering(open_bundle(MODELS / f"fashion-{one}")) for one in ("edge", "cloud"))
    what = sent(edge, images, 1)
    rows = data_set.labelled(images, what, cloud, 1)
    assert len(rows) == len(what.chosen)
    assert np.array_equal(rows.labels, rows.soft.argmax(1))
    assert np.array_equal(rows.ids, data_set.labelled(images, what, cloud, 1).ids)
