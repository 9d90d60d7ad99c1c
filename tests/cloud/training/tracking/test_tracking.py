"""Runs beside each other, and their curves as a picture."""

import asyncio

import pytest

from cloud.training.documents import Point, Run
from cloud.training.tracking.plots import plot
from cloud.training.tracking.tracking import Tracking, compared
from shared.errors import Malformed


def run(name, parameters, figures):
    return Run(
        id=name,
        parameters=parameters,
        code_version="1",
        machine="m",
        started_at=1.0,
        figures=figures,
    )


def test_only_what_differs_is_shown_and_every_figure():
    found = compared(
        [
            run("a", {"kind": "prune", "seed": 1}, {"loss": 1.0}),
            run("b", {"kind": "prune", "seed": 2, "more": True}, {"loss": 0.5, "accuracy": 0.9}),
        ]
    )
    assert found.parameters == {"more": (None, True), "seed": (1, 2)}
    assert found.figures == {"accuracy": (None, 0.9), "loss": (1.0, 0.5)}


@pytest.mark.parametrize("count", [0, 17])
def test_too_many_or_none_are_refused(count):
    with pytest.raises(Malformed, match="name 1 to 16"):
        asyncio.run(Tracking(None).compare(["a"] * count))


@pytest.mark.parametrize(("kind", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_same_curves_give_the_same_picture(kind, magic):
    curves = {
        name: [Point(metric="loss", step=n, value=n / 2, at=0.0) for n in range(3)] for name in "ab"
    }
    picture = plot(curves, ["loss", "absent"], kind)
    assert picture.startswith(magic)
    assert picture == plot(curves, ["loss", "absent"], kind)
