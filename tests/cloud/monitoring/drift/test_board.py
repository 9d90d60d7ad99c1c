"""What is about to be an alarm, and what ends it."""

import pytest

from cloud.monitoring.drift.alarms import Reading
from cloud.monitoring.drift.board import scope_of
from cloud.monitoring.drift.documents import Kind
from cloud.monitoring.drift.reference import SAMPLES
from cloud.monitoring.drift.settings import DriftSettings
from tests.cloud.monitoring.drift.field import MODEL, Field, reference

OF = (MODEL, "1.0.0")
FAR = 3.0


def half_open(field, kind, scope):
    def no_alarm():
        pytest.fail("one look opened it")

    field.watch.board.step(kind, scope, Reading(is_over=True), no_alarm, field.now, [])
    assert field.watch.board.watches(kind, scope)


def begins_anew(field):
    field.watch.know(reference(expected=0.93))


def is_left(field):
    field.watch.know(reference("2.0.0"))
    for devices in field.devices.values():
        for one in devices:
            one.swaps("2.0.0")
    field.turn()


def is_driven_out(field):
    for number in range(DriftSettings().references_max):
        field.watch.know(reference(f"9.0.{number}"))
    field.watch.forget(one.name for some in field.devices.values() for one in some)
    field.watch.know(reference("9.9.9"))
    field.watch.look(field.now)


@pytest.mark.parametrize("ends", [begins_anew, is_left, is_driven_out])
@pytest.mark.parametrize("scope", [("fleet", "fleet"), ("group", "lyon"), ("device", "lyon-0")])
@pytest.mark.parametrize("kind", [Kind.INPUT, Kind.ANSWER, Kind.MISSING])
def test_nothing_is_about_to_be_an_alarm_by_windows_that_are_gone(kind, scope, ends):
    field = Field({"lyon": 4, "nice": 4})
    field.turns(10)
    half_open(field, kind, scope_of(*scope, OF))
    ends(field)
    assert not field.watch.board.watches(kind, scope_of(*scope, OF))


def test_what_a_group_was_about_to_be_named_for_holds_back_none_of_its_devices():
    """Once too few of its samples are left to be looked at."""
    field = Field({"lyon": 6}, DriftSettings(samples_min=150))
    field.turns(10)
    half_open(field, Kind.INPUT, scope_of("group", "lyon", OF))
    every = field.devices["lyon"]
    field.watch.forget(one.name for one in every[2:])
    field.devices["lyon"] = every[:2]
    field.turn(1)
    assert not field.watch.board.watches(Kind.INPUT, scope_of("group", "lyon", OF))


def test_what_is_looked_at_stays_about_to_be_one_until_the_next_look():
    field = Field({"lyon": 4, "nice": 4})
    field.turns(10)
    scopes = [scope_of(*one, OF) for one in (("fleet", "fleet"), ("group", "lyon"))]
    for scope in scopes:
        half_open(field, Kind.INPUT, scope)
    field.watch.look(field.now)  # without new samples
    assert all(field.watch.board.watches(Kind.INPUT, scope) for scope in scopes)
    field.turn()
    assert not any(field.watch.board.watches(Kind.INPUT, scope) for scope in scopes)


def window(field, device):
    return int(field.watch.tracks.devices[device].window.total()[SAMPLES])


def test_a_group_s_silence_that_ends_takes_nothing_from_its_devices():
    field = Field({"lyon": 6})
    field.turns(10)
    away = field.devices["lyon"][4:]
    del field.devices["lyon"][4:]
    field.turns(15)
    assert field.on() == {("stale", "group", "lyon")}
    field.devices["lyon"] += away
    while field.on():
        field.turn()
    assert all(window(field, one.name) >= 200 for one in field.devices["lyon"])


def test_accuracy_that_is_as_before_takes_nothing_from_the_devices():
    field = Field({"lyon": 6}, DriftSettings(audits_kept=100))
    field.watch.know(reference(expected=0.93))

    def audited(turns, disagreed):
        for _ in range(turns):
            for one in field.devices["lyon"]:
                one.sees(40)
                one.is_audited(0.1, 40, 4, disagreed)
            field.turn(0)

    audited(20, 3)
    assert field.on() == {("accuracy", "group", "lyon")}
    while field.on():
        audited(1, 0)
    assert all(window(field, one.name) >= 200 for one in field.devices["lyon"])


def test_answers_that_inputs_explain_take_nothing_from_the_devices():
    field = Field({"lyon": 6})
    field.turns(10)
    field.turns(6, sure={"lyon": 0.2})
    assert field.on() == {("answer", "group", "lyon")}
    while ("answer", "group", "lyon") in field.on():
        field.turn(shifts={"lyon": FAR}, sure={"lyon": 0.2})
    assert field.on() == {("input", "group", "lyon")}
    assert all(window(field, one.name) >= 200 for one in field.devices["lyon"])


@pytest.mark.parametrize("kind", ["input", "answer", "missing"])
def test_drift_of_a_group_that_is_over_is_not_held_against_its_devices(kind):
    field = Field({"lyon": 6})
    field.turns(10)
    for _ in range(6):
        for one in field.devices["lyon"]:
            one.sees(40, FAR * (kind == "input"), 0.2 if kind == "answer" else 1.0,
                     missing=10 * (kind == "missing"))  # fmt: skip
        field.turn(0)
    assert field.on() == {(kind, "group", "lyon")}
    while field.on():
        field.turn(10)
    assert all(window(field, one.name) == 0 for one in field.devices["lyon"])
