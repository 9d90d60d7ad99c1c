import pytest

from simulations.cache_replay.__main__ import main
from simulations.cache_replay.replay import replay
from simulations.cache_replay.traces import SCAN, traces

PLACES = 1_000


@pytest.mark.parametrize("seed", [1, 2])
def test_arc_beats_lru_on_a_scan_and_loses_nothing_to_lfu(seed: int) -> None:
    streams = traces(seed, PLACES)
    for title in ("zipf", "zipf with a scan"):
        lru, lfu, arc = (
            replay(name, streams[title], PLACES).hit_share for name in ("lru", "lfu", "arc")
        )
        assert arc > lru + 0.05, title
        assert arc > lfu - 0.01, title


def test_a_loop_longer_than_the_cache_defeats_all_three() -> None:
    loop = traces(1, PLACES)["loop"]
    assert [replay(name, loop, PLACES).hit_share for name in ("lru", "lfu", "arc")] == [0, 0, 0]


def test_the_scan_comes_once() -> None:
    streams = traces(1, PLACES)
    plain, scanned = streams["zipf"], streams["zipf with a scan"]
    popular = set(plain)
    scan = [number for number in scanned if number not in popular]
    assert len(scan) == len(set(scan)) == SCAN
    assert [number for number in scanned if number in popular] == plain


def test_the_command_prints_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["cache_replay", "--places", "500"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["LRU", "LFU", "ARC"]
    assert [line[:20].strip() for line in lines[2:]] == ["zipf", "zipf with a scan", "loop"]
