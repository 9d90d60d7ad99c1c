"""The command line of the storm: a short one passes, and a failed check is told in words."""

import json

import pytest

from simulations.broker_chaos.__main__ import main, report
from simulations.broker_chaos.checks import Verdict
from simulations.broker_chaos.storm import Result


def test_a_short_storm_passes(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([
        "--minutes", "0.2", "--seed", "5", "--pace", "3",
        "--broker-kill-s", "4", "--client-kill-s", "5", "--json",
    ])  # fmt: skip
    said = capsys.readouterr().out
    assert status == 0, said
    result = json.loads(said.splitlines()[-1])
    assert result["figures"]["broker_kills"] >= 1
    assert result["figures"]["client_kills"] >= 1
    idle = {one["name"] for one in result["verdicts"] if not one["looked_at"]}
    assert idle <= {"slow reader: all that it missed was counted"}


def test_a_failed_check_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Verdict("order kept", 2, ["r0 got p0/2 first"])
    assert report(Result([Verdict("all well", 1), wrong], {"acknowledged": 3}))
    assert "WRONG order kept: r0 got p0/2 first" in capsys.readouterr().out
    assert not report(Result([Verdict("all well", 1)], {}))
