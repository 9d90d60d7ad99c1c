"""Which streams are run, and that a run of none is refused."""

import pytest

from cloud.training.shifts import SHIFTS
from simulations.drift_bench.__main__ import main, streams


def test_no_two_streams_share_a_seed_and_settings_were_chosen_by_others() -> None:
    seeds = [one.seed for one in streams()]
    assert seeds == list(range(2_000, 2_200))
    assert min(one.seed for one in streams(seeds=1, quiet=1, first_seed=7)) == 7


def test_each_shift_drifts_in_each_place() -> None:
    drifting = [one for one in streams(seeds=1, quiet=2) if one.shift is not None]
    assert len({(one.shift, one.where) for one in drifting}) == len(drifting) == 5 * len(SHIFTS)


@pytest.mark.parametrize("none", [("--seeds", "0"), ("--quiet", "0"), ("--quiet", "-1")])
def test_a_run_in_which_something_is_not_tried_is_refused(
    none: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(none)
    assert ended.value.code == 2
    assert "no target is met by what was not tried" in capsys.readouterr().err
