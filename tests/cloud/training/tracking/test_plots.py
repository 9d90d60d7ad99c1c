"""Curves of runs, as a picture."""

import pytest

from cloud.training.tracking.plots import plot

CURVES = {
    "loss": {name: [(step, step / 2) for step in range(3)] for name in "ab"},
    "accuracy": {"a": [(7, 0.5)], "b": []},
}


@pytest.mark.parametrize(("kind", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_same_curves_give_the_same_picture(kind, magic):
    picture = plot(CURVES, kind)
    assert picture.startswith(magic)
    assert picture == plot(CURVES, kind)


def test_each_metric_has_a_panel_with_the_runs_that_have_it():
    picture = plot(CURVES).decode()
    assert picture.count("<!-- loss -->") == picture.count("<!-- accuracy -->") == 1
    assert (picture.count("<!-- a -->"), picture.count("<!-- b -->")) == (2, 1)
