"""The loop with real processes: a shift, its alarm, a data set, a job, a version on the cameras."""

import asyncio
from pathlib import Path

import pytest

from cloud.demo.drift.region import CLEAN_LOSS_MAX
from cloud.demo.drift.run import Plan, run
from cloud.demo.drift.verdict import failures
from tests.cloud.cli.own_registry import ROOT

MODELS = ROOT / "models"


@pytest.mark.train
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["camera fault"])
def test_cameras_that_drift_get_a_version_that_knows_what_they_see(tmp_path: Path, kind: str):
    said: list[str] = []
    plan = Plan(MODELS / "fashion-edge", MODELS / "fashion-cloud", tmp_path, kind, 25.0, 800)
    row = asyncio.run(run(plan, said.append))
    assert failures(row, CLEAN_LOSS_MAX) == [], "\n".join(said)


@pytest.mark.train
@pytest.mark.slow
def test_a_teacher_that_is_worse_than_the_edge_teaches_nobody(tmp_path: Path):
    teacher = MODELS / "fashion-cloud-plain"
    plan = Plan(MODELS / "fashion-edge", teacher, tmp_path, "noise 30", 25.0, 800)
    row = asyncio.run(run(plan, lambda _: None))
    assert "refused" in row.why
    assert row.after == row.before
    assert not row.moved
