"""Of what is said about a fleet counts all, be it before the drift or after it was named."""

from pathlib import Path

import numpy as np
import pytest

from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.monitoring.drift.opened import Closed, Opened
from shared.bundle.reader import open_bundle
from simulations.drift_bench.camera import Camera
from simulations.drift_bench.verdict import (
    Outcome,
    Verdict,
    Where,
    drifting_cameras,
    misleads,
    right_cause,
    wanted_of,
)

MANIFEST = open_bundle(Path(__file__).parents[3] / "models" / "fashion-edge").manifest
EVEN = np.full(10, 0.1)
CAMERAS = [Camera(f"{at}-{n}", at, MANIFEST, EVEN, EVEN) for at in "abcd" for n in range(4)]


def alarm(kind: str, name: str, of: Kind = Kind.INPUT, cause: Cause = Cause.UNKNOWN) -> Alarm:
    scope = Scope.model_validate({"kind": kind, "name": name, "model": "m", "version": "1.0.0"})
    return Alarm(
        id="a", kind=of, scope=scope, cause=cause, words="w", runbook="r", command="c", opened_at=1.0,
    )  # fmt: skip


def verdict(where: Where) -> Verdict:
    return Verdict(CAMERAS, drifting_cameras(CAMERAS, where), wanted_of(CAMERAS, where))


def told(where: Where, *names: tuple[str, str]) -> Outcome:
    """Each camera reports ten samples, then it is said of one scope that its inputs drift, and so on."""
    found = verdict(where)
    for kind, name in names:
        for camera in CAMERAS:
            found.reported(camera, 10)
        found.looked([Opened(alarm(kind, name))])
    return found.outcome


@pytest.mark.parametrize(
    ("where", "names", "delays", "wrong"),
    [
        ("a device", [("device", "a-0")], [10], 0),
        ("a device", [("device", "a-1"), ("group", "a"), ("device", "a-0")], [30], 2),
        ("a device", [("device", "a-0"), ("group", "a")], [10], 1),  # after it was named
        ("a group", [("device", "a-0"), ("group", "a"), ("device", "b-0")], [80], 1),
        ("a group", [("device", "a-0")], [None], 0),
        ("half a group", [("group", "a")], [40], 0),
        ("half a group", [("device", "a-1"), ("group", "a")], [40], 0),  # the group's samples
        ("half a group", [("device", "a-2")], [None], 1),
        ("half the fleet", [("group", "b"), ("group", "c")], [None, 40], 1),
        ("half the fleet", [("group", "b"), ("fleet", "fleet"), ("group", "a")], [120, 40], 1),
        ("the fleet", [("group", "a"), ("fleet", "fleet")], [320], 0),
    ],
)  # fmt: skip
def test_what_is_said_about_whom(
    where: Where, names: list[tuple[str, str]], delays: list[int | None], wrong: int
) -> None:
    found = told(where, *names)
    assert found.delays == delays
    assert (len(found.wrong), len(found.right)) == (wrong, len(names) - wrong)


def test_only_the_first_naming_counts() -> None:
    assert told("a group", ("group", "a"), ("group", "a")).delays == [40]


def test_an_alarm_before_the_drift_is_wrong_and_names_nothing() -> None:
    found = verdict("a group")
    found.looked([Opened(alarm("group", "a"))])
    assert found.outcome.delays == [None]
    assert len(found.outcome.wrong) == 1


@pytest.mark.parametrize("kind", [Kind.MISSING, Kind.STALE, Kind.ACCURACY])
def test_alarms_of_a_kind_that_no_shift_brings_are_wrong(kind: Kind) -> None:
    found = verdict("a group")
    found.reported(CAMERAS[0], 10)
    found.looked([Opened(alarm("group", "a", kind))])
    assert found.outcome.delays == [None]
    assert [one.kind for one in found.outcome.wrong] == [kind]


def test_what_closes_says_nothing_new() -> None:
    found = verdict("a group")
    found.reported(CAMERAS[0], 10)
    found.looked([Closed(alarm("group", "a"), "it is as before")])
    assert found.outcome == Outcome([None])


def test_where_nothing_drifts_each_alarm_is_wrong() -> None:
    found = Verdict(CAMERAS, frozenset(), ())
    found.reported(CAMERAS[0], 10)
    found.looked([Opened(alarm("device", "a-0")), Opened(alarm("fleet", "fleet"))])
    assert len(found.outcome.wrong) == 2


@pytest.mark.parametrize(
    ("where", "kind", "name", "cause"),
    [
        ("a device", "device", "a-0", Cause.SENSOR),
        ("half a group", "device", "a-0", Cause.UNKNOWN),
        ("a group", "device", "a-0", Cause.UNKNOWN),
        ("half a group", "group", "a", Cause.SCENE),
        ("the fleet", "fleet", "fleet", Cause.SCENE),
    ],
)
def test_which_cause_is_right(where: Where, kind: str, name: str, cause: Cause) -> None:
    assert right_cause(where, alarm(kind, name)) is cause
    misleading = {one for one in Cause if misleads(where, alarm(kind, name, cause=one))}
    assert misleading == {*Cause} - {cause, Cause.UNKNOWN}
