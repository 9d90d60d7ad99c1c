import pytest

from cloud.training import cards
from shared import __version__
from shared.bundle.manifest import Calibration, Guarantee, Threshold

FIGURES = {"edge int8 accuracy": 0.9231, "grey4 bytes, mean of escalated": 214.6}
ESCALATES = Calibration(
    temperature=1.0, score="max_softmax", default_threshold="loss-3-per-mille",
    thresholds=(
        Threshold(
            name="loss-3-per-mille", confidence_min=0.875, escalated_share=0.17,
            hybrid_accuracy=0.941,
            guarantee=Guarantee(statement="it holds", method="m", epsilon=0.003, delta=0.05, samples=9),
        ),
        Threshold(
            name="escalate-all", confidence_min=1.01, guarantee=None, escalated_share=1.0,
            hybrid_accuracy=0.945,
        ),
    ),
)  # fmt: skip
ANSWERS = Calibration(temperature=1.0, score="max_softmax")


def test_every_figure_stands_in_its_unit() -> None:
    text = cards.card("edge", FIGURES, ESCALATES)
    assert "| edge int8 accuracy | 92.31% |" in text
    assert "| grey4 bytes, mean of escalated | 215 B |" in text


def test_thresholds_stand_with_what_they_guarantee_and_cost() -> None:
    text = cards.card("edge", FIGURES, ESCALATES)
    assert (
        "- `loss-3-per-mille`: below 0.8750; 17.0% escalated, 94.10% right on the calibration "
        "split; it holds\n"
    ) in text
    assert "- `escalate-all`: below 1.0100; 100.0% escalated, 94.50% right" in text


def test_a_model_that_never_escalates_has_no_thresholds() -> None:
    assert "## Thresholds" not in cards.card("cloud", FIGURES, ANSWERS)


@pytest.mark.parametrize(("side", "network"), [("edge", "EdgeNet"), ("cloud", "CloudNet")])
def test_a_card_says_what_it_is_for_what_it_is_made_of_and_where_it_fails(
    side: str, network: str
) -> None:
    text = cards.card(side, FIGURES, ANSWERS)
    assert text.startswith(f"# Fashion-MNIST, {side} model\n")
    for said in (network, "MIT licence", "## Limits and known failure modes"):
        assert said in text


def test_the_code_version_stands_alone_where_there_is_no_git(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cards.code_version().split("+")[0] == __version__
    monkeypatch.setenv("PATH", "")
    assert cards.code_version() == __version__
