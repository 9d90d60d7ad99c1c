import subprocess
import sys

import pytest

from cloud.monitoring.log_sampling import Sampling


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("shape", ["request-{:06}", "{}", "0193{:08x}-7abc-8000-0123456789ab"])
def test_the_share_holds_for_ids_that_count_up(share: float, shape: str) -> None:
    picks = Sampling(share).picks
    picked = sum(picks(shape.format(number)) for number in range(50_000))
    assert picked / 50_000 == pytest.approx(share, rel=0.1)


def test_a_retry_is_picked_again_by_whichever_process_it_meets() -> None:
    ids = [f"request-{number}" for number in range(200)]
    picks = Sampling(0.3).picks
    here = [picks(one) for one in ids]
    assert here == [Sampling(0.3).picks(one.encode()) for one in ids]
    script = (
        "from cloud.monitoring.log_sampling import Sampling\n"
        "picks = Sampling(0.3).picks\n"
        "print([picks(f'request-{n}') for n in range(200)])"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert there.stdout.decode().strip() == str(here)


def test_requests_without_an_id_are_counted_off() -> None:
    picks = Sampling(0.25).picks
    assert [picks(None) for _ in range(8)] == [False, False, False, True] * 2


def test_all_and_none() -> None:
    for picked, share in ((False, 0.0), (True, 1.0)):
        picks = Sampling(share).picks
        assert {picks(None), picks("a"), picks(""), picks("\ud800"), picks("\U0001f600")} == {
            picked
        }
