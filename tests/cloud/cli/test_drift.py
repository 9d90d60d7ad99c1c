"""`hybridge drift` against a fleet's drift at the wire."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.cli import own_fleet
from tests.cloud.cli.learning_views import NOW, drift_alarm
from tests.cloud.cli.own_registry import Said, hybridge
from tests.cloud.cli.wire_learning import WireLearning, wire_learning
from tests.cloud.fleet.servers import fleet


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireLearning]:
    monkeypatch.setenv("COLUMNS", "300")
    with wire_learning() as running:
        running.alarms = [drift_alarm(), drift_alarm(id="old", closed_at=NOW + 60)]
        yield running


def run(wire: WireLearning, *arguments: str) -> Said:
    return hybridge("drift", *arguments, "--fleet", wire.url)


def test_status_is_code_1_while_an_alarm_is_on(wire: WireLearning) -> None:
    said = run(wire, "status")
    assert said.code == 1
    assert all(
        part in said.out
        for part in ("group lyon", "input_low 0.90, far off", "62.0% [55.0, 70.0], promised 91%")
    )
    assert "hybridge loop begin fashion-edge -m drift" in said.out
    assert "input_mean" not in said.out
    wire.alarms = []
    said = run(wire, "status", "--group", "lyon")
    assert (said.code, "input_mean" in said.out, "as it was" in said.out) == (0, True, True)
    assert wire.asked[-1][1].startswith("/v1/drift?kind=group&name=lyon")
    assert run(wire, "status", "--group", "a", "--device", "b").code == 2


def test_alarms_have_words_a_runbook_and_a_command(wire: WireLearning) -> None:
    said = run(wire, "alarms").out
    assert said.splitlines()[1:] == [
        "  group lyon, fashion-edge 1.0.0: inputs are darker than the reference",
        "  devices: cam-1, cam-2 and 3 more",
        "  look at the cameras",
        "  $ hybridge loop begin fashion-edge -m drift",
    ]
    assert "old" not in said
    assert "old" in run(wire, "alarms", "--all").out
    wire.alarms = []
    assert run(wire, "alarms").out == "No alarm is on.\n"


def test_an_alarm_is_shown_and_acknowledged(wire: WireLearning) -> None:
    assert "scene" in run(wire, "show", "lyon-input-1").out
    dry = run(wire, "seen", "lyon-input-1", "-m", "x", "--dry-run", "-o", "json").json
    assert (dry["alarm"], wire.words()) == ("lyon-input-1", [])
    assert run(wire, "seen", "lyon-input-1", "-m", "x").out == "lyon-input-1: seen by anna\n"
    assert run(wire, "seen", "nothing", "-m", "x").code == 1


def test_features_as_bars(wire: WireLearning, tmp_path: Path) -> None:
    file = tmp_path / "drift.svg"
    assert run(wire, "plot", str(file), "--group", "lyon").code == 0
    assert b"<svg" in file.read_bytes()
    said = run(wire, "plot", str(tmp_path / "b.svg"), "--group", "paris")
    assert (said.code, "no window has samples yet" in said.err) == (1, True)
    assert run(wire, "plot", str(tmp_path / "b.gif")).code == 2


def test_a_real_fleet_without_devices_has_no_alarm(tmp_path: Path) -> None:
    with fleet(tmp_path / "fleet") as running:
        status = own_fleet.found(running, "drift", "status", role="viewer")
        assert (status["scopes"], status["alarms"]) == ([], [])
        assert own_fleet.found(running, "drift", "alarms", "--all", role="viewer") == []
        said = own_fleet.run(running, "drift", "seen", "nothing", "-m", "x")
        assert (said.code, "nothing" in said.err) == (1, True)
        said = own_fleet.run(running, "drift", "status", "--device", "a/b")
        assert (said.code, "letters, digits" in said.err) == (1, True), said.err
