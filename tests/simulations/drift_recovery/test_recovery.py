"""What is measured of a fine-tune, and what a device would have sent for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloud.training.recipes.ground import answering
from cloud.training.shifts import shift
from shared.bundle.reader import open_bundle
from shared.errors import Malformed
from simulations.drift_recovery import data_set, table
from simulations.drift_recovery.recovery import Recovery
from simulations.drift_recovery.stream import sent
from simulations.drift_recovery.trials import ABLATIONS, WHOLE

MODELS = Path(__file__).parents[3] / "models"
GOOD = Recovery(
    kind="noise 30", trial="", seed=0, sent=100, teacher=0.9, clean_before=0.93, clean_after=0.925, calibration_loss=0.004,
    before=0.60, after=0.88, escalated_before=0.7, escalated_after=0.3, cpu_s=40.0,
)  # fmt: skip


def test_regained_is_a_share_of_what_was_lost() -> None:
    assert GOOD.regained == pytest.approx(0.28 / 0.33)
    assert table.missed([GOOD]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"after": 0.75}, "regained 45.5%, at least 55%"),
        ({"clean_after": 0.92}, "clean lost 1.00% of the test images, at most 0.7%"),
        ({"calibration_loss": 0.008}, "clean lost 0.80% of the calibration images"),
        ({"cpu_s": 61.0}, "61 s of CPU"),
        ({"after": 0.83}, "mean regained 69.7%, at least 80%"),
    ],
)
def test_a_missed_target_is_named(change: dict[str, float], words: str) -> None:
    assert words in " ".join(table.missed([replace(GOOD, **change)]))


def test_a_seed_changes_nothing_else_of_the_recipe() -> None:
    one, other = WHOLE.recipe(0), WHOLE.recipe(7)
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


def test_without_audits_only_what_was_escalated_or_novel_is_left() -> None:
    images = np.load(MODELS / "fashion-mnist-test-2000.npz")["images"][:400]
    whole = sent(answering(open_bundle(MODELS / "fashion-edge")), shift(images, "blur 1.0"), 1)
    less = whole.escalated()
    assert 0 < len(less.chosen) < len(whole.chosen)
    assert set(less.shares.tolist()) == {1.0}
    assert set(less.chosen.tolist()) < set(whole.chosen.tolist())


def test_each_ablation_differs_from_the_whole_in_one_thing() -> None:
    whole = WHOLE.recipe(3)
    assert [trial.recipe(3) == whole for trial in ABLATIONS] == [False, False, True]
    assert [trial.audits for trial in ABLATIONS] == [True, True, False]


def test_the_table_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    for _ in range(2):
        table.write(page, [table.HEAD, table.row(GOOD)])
    text = page.read_text()
    assert text.startswith(f"before\n{table.BEGIN}\n| shift")
    assert text.endswith(f"| 40 s |\n{table.END}\nafter\n")
    assert "old" not in text


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no place")
    with pytest.raises(Malformed, match="between which figures go"):
        table.write(page, [])
    assert page.read_text() == "no place"
