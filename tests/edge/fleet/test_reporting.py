"""Reports: only what changed, with rising numbers."""

from dataclasses import replace

import pytest

from edge.fleet.drafts import model_draft, profile_draft, refusal, standing
from edge.fleet.kept import Kept
from edge.fleet.reporting import Report, Reporting
from edge.updates.fleet_view import FleetView
from edge.updates.release import Release
from shared.fleet.reported import BYTES_MAX, DevicePhase, ReportedInventory, ReportedModel
from tests.edge.fleet.station import profile
from tests.edge.fleet.test_desired import model

RELEASE = Release("1.0.3", "0" * 64, 10, 1)


def drafts(kept: Kept, why: str = "") -> list[Report]:
    view = FleetView(DevicePhase.TRIAL, RELEASE, None, why, False, 3, "r-1", 2)
    return [model_draft(kept, None, view, "m", "onnxruntime/int8", ""), profile_draft(kept)]


def test_only_what_changed_is_said_again() -> None:
    reporting, kept = Reporting(7), Kept()
    assert [section for section, _ in reporting.due(drafts(kept), 1.0)] == ["model", "profile"]
    assert reporting.due(drafts(kept), 2.0) == []
    ((section, content),) = reporting.due(drafts(kept, "now on trial"), 3.0)
    said = ReportedModel.from_bytes(content, BYTES_MAX)
    assert (section, said.sequence, said.at, said.why) == ("model", 9, 3.0, "now on trial")
    assert reporting.next == 10


def test_all_of_it_is_said_again_once_it_may_be_lost() -> None:
    reporting = Reporting(0)
    reporting.due(drafts(Kept()), 1.0)
    reporting.forget()
    assert len(reporting.due(drafts(Kept()), 2.0)) == 2
    assert reporting.next == 4


def test_a_rejection_says_whether_the_golden_samples_were_the_reason() -> None:
    view = FleetView(DevicePhase.REJECTED, RELEASE, None, "x" * 900, True, 3, "r-1", 2)
    said = model_draft(Kept(), None, view, "m", "v" * 90, "")
    assert (said.phase, said.golden_failed, said.generation, said.attempt) == (
        DevicePhase.REJECTED, True, 3, 2,
    )  # fmt: skip
    assert (len(said.why), len(said.variant)) == (500, 40)


def test_an_unreadable_desired_model_is_reported_as_failed_under_its_generation() -> None:
    kept = Kept(model=model(3), model_generation=5, model_why="version: is missing; set it")
    view = FleetView(DevicePhase.COMMITTED, RELEASE, None, "", False, 3, None, 1)
    said = model_draft(kept, kept.model, view, "m", "v", "")
    assert (said.phase, said.generation, said.why) == (
        DevicePhase.FAILED, 5, "version: is missing; set it",
    )  # fmt: skip
    assert said.version == "1.0.3"


def test_what_cannot_be_followed_is_reported_under_what_asked_for_it() -> None:
    kept = Kept(model=model(3, rollout="r-9", attempt=4), model_generation=3)
    said = model_draft(kept, kept.model, standing(RELEASE, None), "other", "v", "another model")
    assert (said.phase, said.generation, said.rollout, said.attempt, said.why) == (
        DevicePhase.FAILED, 3, "r-9", 4, "another model",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "updates", "release", "why"),
    [
        ("m", True, Release("1.0.0", "1" * 64, 1, 1), ""),
        ("m", False, RELEASE, ""),
        ("m", False, Release("1.0.3", "1" * 64, 1, 1), "takes no updates"),
        ("n", True, RELEASE, "runs the model n; desired is m"),
    ],
)
def test_who_can_follow(name: str, updates: bool, release: Release, why: str) -> None:
    said = refusal(model(3), name, release, updates=updates)
    assert why in said
    assert bool(said) == bool(why)


def test_a_profile_that_was_refused_is_told_apart_from_the_one_in_force() -> None:
    one = profile(1, version=8)
    kept = Kept(profile_generation=2, profile_why="no such threshold", applied=one)
    said = profile_draft(kept)
    assert (said.generation, said.name, said.version, said.sha256) == (2, "camera", 8, one.sha256)
    assert (said.applied, said.why) == (False, "no such threshold")


def test_a_profile_is_reported_under_the_rollout_that_asked_for_it() -> None:
    one, two = profile(1), profile(2).model_copy(update={"rollout": "r-2", "attempt": 3})
    refused = Kept(profile=two, profile_generation=2, profile_why="no", applied=one)
    said = profile_draft(refused)
    assert (said.rollout, said.attempt, said.version) == ("r-2", 3, 1)
    said = profile_draft(replace(refused, profile_generation=4))  # one that could not be read
    assert (said.generation, said.rollout, said.attempt) == (4, None, 0)


def test_a_profile_that_is_yet_to_be_applied_is_not_reported() -> None:
    one, two = profile(1), profile(2)
    kept = Kept(profile=two, profile_generation=2, applied=one)
    assert profile_draft(kept).generation == 1
    assert profile_draft(replace(kept, applied=None)).generation == 0
    assert profile_draft(replace(kept, applied=two)).generation == 2
    assert profile_draft(replace(kept, profile_why="no")).generation == 2


def test_the_longest_reports_are_within_their_bound() -> None:
    long = "\x01" * 500  # six bytes each in JSON
    view = FleetView(DevicePhase.REJECTED, RELEASE, RELEASE, long, True, 2**53, "r" * 80, 1000)
    kept = Kept(profile_generation=2**53, profile_why=long)
    hardware = ReportedInventory(
        sequence=2**53, at=1e9, agent="a" * 40, system=long[:200], arch=long[:40], cpu=long[:200],
        cores=4096, memory_bytes=2**53, disk_bytes=2**53,
        engines={f"{n:02}{long[:38]}": long[:80] for n in range(16)}, time_zone="z" * 64,
        certificate_serial=long[:64],
    )  # fmt: skip
    for report in (
        model_draft(kept, None, view, "m" * 64, "v" * 40, ""),
        profile_draft(kept),
        hardware,
    ):
        assert len(report.to_bytes()) <= BYTES_MAX
