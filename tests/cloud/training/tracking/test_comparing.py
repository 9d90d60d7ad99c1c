"""Runs beside each other: what differs, every figure, and which run is best at it."""

import pytest

from cloud.training.tracking.comparing import Compared, compare, is_better
from tests.cloud.cli.learning_views import job, run_of


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("clean.accuracy", 1), ("clean.accuracy.parent", 0), ("loss", -1), ("epoch_ms", -1),
        ("clean.calibration_error", -1), ("holdout.person.gained", 1), ("temperature", 0),
    ],
)  # fmt: skip
def test_a_figures_name_says_what_is_better(name: str, way: int) -> None:
    assert is_better(name) == way


def test_only_what_differs_is_shown_and_every_figure() -> None:
    found = compare(
        [job("a"), job("b")],
        [
            run_of("a", parameters={"fitting": {"seed": 1}}, figures={"loss": 1.0}),
            run_of(
                "b", parameters={"fitting": {"seed": 2}, "more": True},
                figures={"loss": 0.5, "accuracy": 0.9},
            ),
        ],
    )  # fmt: skip
    assert found.jobs == ("a", "b")
    assert [one for one in found.parameters if one.name in {"fitting.seed", "more"}] == [
        Compared("fitting.seed", (1, 2)), Compared("more", (None, True)),
    ]  # fmt: skip
    assert "code_version" not in {one.name for one in found.parameters}
    assert found.figures == (
        Compared("loss", (1.0, 0.5), (False, True)), Compared("accuracy", (None, 0.9)),
    )  # fmt: skip


def test_named_metrics_alone_are_shown() -> None:
    runs = [run_of(name, figures={"loss": 0.5, "accuracy": 0.9}) for name in "ab"]
    found = compare([job("a"), job("b")], runs, ["accuracy"])
    assert [one.name for one in found.figures] == ["accuracy"]


def test_runs_that_are_alike_have_no_best() -> None:
    found = compare([job("a"), job("b")], [run_of("a"), run_of("b")])
    assert found.parameters == ()
    assert all(one.best == () for one in found.figures)
