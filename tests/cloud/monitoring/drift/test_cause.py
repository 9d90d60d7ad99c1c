"""Where drift comes from."""

import itertools
import shlex

import pytest
import typer

from cloud.cli.__main__ import app
from cloud.monitoring.drift import runbook
from cloud.monitoring.drift.cause import Circumstances, of_device, of_many
from cloud.monitoring.drift.documents import Cause, Kind, Scope

SCOPES = [
    Scope(kind=kind, name=name, model="fashion-edge", version="1.0.0")
    for kind, name in (("device", "cam-1"), ("group", "lyon"), ("fleet", "fleet"))
]


@pytest.mark.parametrize(
    ("at", "cause"),
    [
        (Circumstances(1, 6, others=5), Cause.SENSOR),
        (Circumstances(2, 6, others=5), Cause.UNKNOWN),
        (Circumstances(1, 1, others=0), Cause.UNKNOWN),
    ],
)
def test_a_device_alone_among_others_is_its_sensor(at, cause):
    assert of_device(at) is cause


@pytest.mark.parametrize(
    ("at", "cause"),
    [
        (Circumstances(6, 6, was_clean=True), Cause.SCENE),
        (Circumstances(6, 6), Cause.SCENE),
        (Circumstances(3, 6), Cause.SCENE),
        (Circumstances(2, 6), Cause.UNKNOWN),
        (Circumstances(1, 6), Cause.UNKNOWN),
        (Circumstances(1, 1), Cause.UNKNOWN),
        (Circumstances(0, 12, together=True), Cause.SCENE),
        (Circumstances(1, 12, together=True), Cause.SCENE),
        (Circumstances(0, 12, together=True, other_is_clean=True), Cause.MODEL),
        (Circumstances(6, 6, other_is_clean=True), Cause.MODEL),
        (Circumstances(6, 6, was_clean=True, other_is_clean=True), Cause.SCENE),
    ],
)
def test_together_it_is_the_scene_unless_it_came_with_the_version(at, cause):
    assert of_many(at) is cause


def test_each_command_is_one_that_hybridge_has():
    hybridge = typer.main.get_command(app)
    for kind, cause, scope in itertools.product(Kind, Cause, SCOPES):
        words = shlex.split(runbook.command(kind, cause, scope, ("cam-1", "cam-2"), "roll-1"))
        assert words[0] == "hybridge"
        found = hybridge.commands[words[1]].commands[words[2]]
        with found.make_context("x", words[3:]):  # raises for what it does not take
            assert runbook.advice(kind, cause)


def test_a_name_with_a_quote_does_not_leave_its_argument():
    scope = SCOPES[0].model_copy(update={"name": "x; rm -rf '~'"})
    assert shlex.split(runbook.command(Kind.INPUT, Cause.SENSOR, scope))[3] == "x; rm -rf '~'"
