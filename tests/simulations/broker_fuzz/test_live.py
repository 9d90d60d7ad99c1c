"""The fuzz over TCP: a real broker process, a canary beside it."""

from pathlib import Path

import pytest

from simulations.broker_chaos.broker_process import BrokerProcess, free_port
from simulations.broker_fuzz import canary, live
from simulations.broker_fuzz.live import run_live


def test_a_broker_under_attack_serves_the_canary() -> None:
    report = run_live(seed=7, seconds=10)
    assert [one.words() for one in report.failures] == []
    assert report.canary_messages > 50
    assert report.broken > 50


def test_a_broker_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_kill(self: BrokerProcess) -> None:
        plain(self)
        self.kill()

    plain = BrokerProcess.start
    monkeypatch.setattr(BrokerProcess, "start", start_and_kill)
    report = run_live(seed=7, seconds=2)
    assert [one.kind for one in report.failures][:1] == ["live"]


def test_a_canary_that_waits_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "LATENCY_S_MAX", 0.0)
    report = run_live(seed=7, seconds=2)
    assert any("within 0.0 s" in one.what for one in report.failures)


def test_memory_over_the_bound_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "RSS_BYTES_MAX", 1)
    report = run_live(seed=7, seconds=2)
    assert any("allowed" in one.what for one in report.failures)


def test_the_broker_is_stopped(tmp_path: Path) -> None:
    broker = BrokerProcess("embedded", free_port(), tmp_path, {})
    broker.start()
    assert broker.rss_bytes() > 1 << 20
    assert broker.died() is None
    broker.stop()
    assert broker.died() == 0
