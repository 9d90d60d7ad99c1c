"""A rollout from plan to end against a real fleet with devices, watched, detached from and stopped."""

import contextlib
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.cli.rollout_drawing import is_over
from cloud.rollouts.documents import RolloutView
from tests.cloud.cli.own_fleet import HYBRIDGE, asked, found, head, process, run
from tests.cloud.fleet.light import MODEL, NEW, light_devices
from tests.cloud.fleet.servers import FleetProcess, fleet

OPTIONS = (
    "--manifest", NEW.manifest_sha256, "--shadow", "0", "--canary", "25%", "--waves", "100%",
    "--wave-time", "0.3s", "--watch", "0.3s", "--samples", "20", "--only-criteria", "--criterion",
    "install_failures <= 0.5",
)  # fmt: skip


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    with (
        fleet(tmp_path_factory.mktemp("fleet")) as running,
        light_devices(running.broker, 4, samples_per_s=500.0),
    ):
        after = 0
        while len(found(running, "device", "list")) < 4:
            events = running.get(f"/v1/events?after={after}&wait_s=20").json["events"]
            assert events, running.log.read_text()
            after = events[-1]["seq"]
        yield running


def start(region: FleetProcess, seed: str, *more: str) -> str:
    made = found(
        region, "rollout", "start", MODEL, NEW.version, *OPTIONS, "--seed", seed, "--yes", *more
    )
    return str(made["id"])


def test_a_plan_makes_nothing(region: FleetProcess) -> None:
    before = head(region)
    plan = found(region, "rollout", "plan", MODEL, NEW.version, *OPTIONS)
    assert [(one["kind"], one["count"]) for one in plan["stages"]][:2] == [
        ("canary", 1),
        ("wave", 3),
    ]
    dry = found(region, "rollout", "start", MODEL, NEW.version, *OPTIONS, "--dry-run")
    assert dry["devices"] == 4
    drawn = run(region, "rollout", "plan", MODEL, NEW.version, *OPTIONS).out
    assert "install_failures <= 0.5" in drawn
    assert head(region) == before
    assert found(region, "rollout", "list") == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((MODEL, "1.1.0", "--criterion", "disagrement <= 1"), 1, "did you mean 'disagreement'"),
        ((MODEL, "1.1.0", "--canary", "lots"), 1, "--canary 'lots': write it as 5%"),
        ((MODEL, "1.1.0", "--watch", "2 days"), 1, "--watch '2 days': write it as 48h"),
        ((MODEL, "1.1.0", "--waves", "50%,25%"), 1, ""),
        ((MODEL, "1.1.0", "--window", "25:00-26:00"), 1, ""),
        ((MODEL, "1.1.0", "--group", "nobody"), 1, "nobody"),
        ((MODEL, "1.1.0", "-l", "site=="), 1, "selector: at "),
        ((MODEL, "1.1.0", "-l", "site=mars"), 4, "no device of group all"),
        ((MODEL, "1.1.0", "--waves", "100%", "--exponential", "2"), 2, "one at a time"),
        ((MODEL, "1.1.0", "--only-criteria"), 2, "name one at least"),
        (("--profile", "cam", "1.1.0"), 2, "is no version of a profile"),
        (("--profile", "cam", "7"), 1, "cam"),
        ((MODEL,), 2, "name MODEL and VERSION"),
    ],
)  # fmt: skip
def test_a_plan_that_makes_no_sense_is_refused(
    region: FleetProcess, arguments: tuple[str, ...], code: int, words: str
) -> None:
    options = () if arguments[0] == "--profile" else ("--manifest", NEW.manifest_sha256)
    said = run(region, "rollout", "plan", *arguments, *options)
    assert said.code == code, said.err
    assert words in said.err


def test_nobody_there_to_answer_starts_nothing(region: FleetProcess) -> None:
    said = run(region, "rollout", "start", MODEL, NEW.version, *OPTIONS)
    assert (said.code, "give --yes" in said.err) == (2, True)
    assert found(region, "rollout", "list") == []


def test_detached_with_ctrl_c_it_goes_on_and_is_watched_to_its_end_over_a_restart(
    region: FleetProcess, tmp_path: Path
) -> None:
    name = start(region, "one", "--approve-before", "wave")
    watching = process(region, "rollout", "status", name, "-w")
    try:
        assert watching.stdout is not None
        assert name in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=30)
    finally:
        watching.kill()
    assert watching.returncode == 130
    assert err == f"detached: the rollout goes on; come back: hybridge rollout status {name} -w\n"

    again = process(region, "rollout", "status", name, "-w", "-o", "json")
    try:
        assert again.stdout is not None
        for line in again.stdout:
            if RolloutView.model_validate_json(line).waiting_for_approval:
                break
        region.kill()
        assert again.stderr is not None
        assert "asking again" in again.stderr.readline()  # seen before it is back
        region.start()
        said = run(region, "rollout", "approve", name, "-m", "looked at", role="approver")
        assert said.code == 0, said.err
        views = [RolloutView.model_validate_json(line) for line in again.stdout]
        assert again.wait(30) == 0
    finally:
        again.kill()
        again.communicate()
    assert (is_over(views[-1]), views[-1].status) == (True, "succeeded")
    plot = tmp_path / "plot.svg"
    said = run(region, "rollout", "status", name, "--plot", plot)
    assert (said.code, "succeeded" in said.out, plot.read_text()[:5]) == (0, True, "<?xml")
    listed = found(region, "rollout", "devices", name, "--phase", "done")
    assert len(listed) == 4
    kinds = [one["kind"] for one in found(region, "rollout", "history", name)]
    assert kinds[0] == "rollout_made"


def at_terminal(region: FleetProcess, answer: str, *arguments: str) -> tuple[int, str]:
    """`hybridge ARGUMENTS` where a person sits: its exit code, and what the terminal got."""
    mine, its = pty.openpty()
    with os.fdopen(mine, "r+b", buffering=0) as terminal:
        asking = subprocess.Popen(
            [HYBRIDGE, *arguments, *asked(region)], stdin=its, stdout=its, stderr=its,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "140", "LINES": "40"},
        )  # fmt: skip
        os.close(its)
        terminal.write(answer.encode())
        said = b""
        with contextlib.suppress(OSError):  # Linux says so of a terminal that nobody has open
            while part := terminal.read(4096):
                said += part
        return asking.wait(30), said.decode()


def test_at_a_terminal_it_is_drawn_and_asked(region: FleetProcess) -> None:
    (name,) = [one["id"] for one in found(region, "rollout", "list", "--status", "succeeded")]
    code, said = at_terminal(region, "", "rollout", "status", name, "-w")
    assert (code, "█" * 32 in said, "install_failures <= 0.5" in said) == (0, True, True)
    plan = (MODEL, "1.2.0", *OPTIONS, "--manifest", "c" * 64)
    code, said = at_terminal(region, "n\n", "rollout", "start", *plan)
    assert (code, "Start it for 4 devices?" in said, "nothing was changed" in said) == (
        1,
        True,
        True,
    )
    assert len(found(region, "rollout", "list")) == 1


def test_commands_on_a_rollout_and_two_operators(region: FleetProcess) -> None:
    other = ("1.2.0", *OPTIONS, "--wave-time", "1h", "--manifest", "c" * 64, "--yes")
    name = str(found(region, "rollout", "start", MODEL, *other)["id"])
    busy = run(region, "rollout", "start", MODEL, *other, "--seed", "three")
    assert (busy.code, name in busy.err) == (4, True), busy.err
    would = found(region, "rollout", "pause", name, "-m", "x", "--dry-run")
    assert (would["would"], would["status"]) == ("pause", "running")
    assert found(region, "rollout", "pause", name, "-m", "incident")["status"] == "paused"
    assert run(region, "rollout", "pause", name, "-m", "me too").code == 4
    assert found(region, "rollout", "resume", name, "-m", "over")["status"] == "running"
    assert run(region, "rollout", "approve", name, "-m", "x", role="viewer").code == 1
    ended = run(region, "rollout", "undo", name, "-m", "complaints", "-w", "-o", "json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out.splitlines()[-1])["status"] == "rolled_back"
    assert run(region, "rollout", "status", name).code == 1
    assert run(region, "rollout", "status", name, "-w").code == 1
    assert run(region, "rollout", "resume", name, "-m", "x").code == 4
    missing = run(region, "rollout", "status", name[:-1])
    assert (missing.code, f"Did you mean '{name}'" in missing.err) == (1, True)
    assert run(region, "rollout", "status", name, "--plot", "x.txt").code == 2
