"""The command line of the fuzz."""

from pathlib import Path

import pytest

from simulations.broker_fuzz.__main__ import conclude, main
from simulations.broker_fuzz.campaign import Tally
from simulations.broker_fuzz.failures import Failure
from simulations.broker_fuzz.live import LiveReport

FAILURE = Failure(1, 2, "a valid PUBLISH", "wrong", "refused", "3000")


def test_one_episode_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--episode", "1"]) == 0
    assert capsys.readouterr().out == "seed 3\nnothing found\n"


def test_a_short_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--minutes", "0.01", "--no-live"]) == 0
    assert capsys.readouterr().out.endswith("nothing found\n")


def test_findings_end_with_1_and_are_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    live = LiveReport(connections=1, failures=[FAILURE])
    assert conclude(Tally(), [], live, tmp_path) == 1
    said = capsys.readouterr().out
    assert "wrong: a valid PUBLISH: refused" in said
    assert said.endswith("1 findings\n")
    assert [one.name for one in tmp_path.iterdir()] == ["wrong-1-2.json"]
