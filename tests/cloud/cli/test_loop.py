"""`hybridge loop` against a learning process at the wire, and what it draws."""

import io
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from cloud.cli import loop_watching
from cloud.cli.loop_drawing import arrow_of, draw, states, summary, waits_for
from cloud.learning.documents import Arrow, Cycle, FeatureCheck, Finding, Phase
from tests.cloud.cli.learning_views import HASH, NOW, cycle, loop
from tests.cloud.cli.own_fleet import HYBRIDGE
from tests.cloud.cli.wire_learning import WireLearning, wire_learning

ASKS = frozenset({Arrow.APPROVE, Arrow.RELEASE})
SETTINGS = 'model = "fashion-edge"\nteacher = "fashion-cloud"\n'


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireLearning]:
    monkeypatch.setenv("COLUMNS", "300")
    with wire_learning() as running:
        running.loops = {"fashion-edge": loop()}
        yield running


def asking() -> Cycle:
    return cycle(phase=Phase.APPROVING, version="1.0.1", asks=Arrow.APPROVE, revision=4)


def test_a_loop_is_made_changed_and_left_alone(wire: WireLearning, tmp_path: Path) -> None:
    file = tmp_path / "loop.toml"
    wire.loops = {}
    file.write_text(SETTINGS)
    dry = wire.json("loop", "set", str(file), "--dry-run")
    assert (dry["would"], wire.words()) == ("make", [])
    assert wire.json("loop", "set", str(file))["revision"] == 1
    assert "nothing to change" in wire.run("loop", "set", str(file)).out
    file.write_text(SETTINGS + 'asks = ["train", "release"]\n[triggers]\nsamples = 900\n')
    said = wire.run("loop", "set", str(file))
    assert "changed the loop of fashion-edge: triggers, asks" in said.out
    assert wire.loops["fashion-edge"].settings.asks == {Arrow.TRAIN, Arrow.RELEASE}
    assert wire.words() == ["PUT /v1/loops/fashion-edge"] * 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("[trigger]\nsamples = 3\n", "Did you mean 'triggers'"),
        ("[triggers]\nsampels = 3\n", "Did you mean 'samples'"),
        ('asks = ["aprove"]\n', "asks"),
        ("enabled = ", "not TOML"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(
    wire: WireLearning, tmp_path: Path, more: str, words: str
) -> None:
    file = tmp_path / "loop.toml"
    file.write_text(SETTINGS + more)
    said = wire.run("loop", "set", str(file))
    assert (said.code, words in said.err) == (1, True), said.err
    assert not wire.asked


def test_go_and_stop_are_said_to_what_was_seen(wire: WireLearning) -> None:
    said = wire.run("loop", "go", "fashion-edge", "-m", "x")
    assert (said.code, "is training and asks for nothing" in said.err) == (4, True)
    wire.turn("fashion-edge", asking())
    assert wire.json("loop", "go", "fashion-edge", "-m", "x", "--dry-run")["would"] == "go"
    assert not wire.words()
    assert wire.json("loop", "go", "fashion-edge", "-m", "fine")["phase"] == "releasing"
    assert wire.asked[-1][2] == {"verb": "go", "comment": "fine"}
    assert wire.json("loop", "stop", "fashion-edge", "-m", "enough")["phase"] == "stopped"
    said = wire.run("loop", "stop", "fashion-edge", "-m", "x")
    assert (said.code, "no cycle runs" in said.err) == (4, True)
    said = wire.run("loop", "go", "fashion-egde", "-m", "x")
    assert (said.code, "Did you mean 'fashion-edge'" in said.err) == (1, True)


def test_a_cycle_begins_once(wire: WireLearning) -> None:
    assert wire.run("loop", "begin", "fashion-edge", "-m", "x").code == 4
    assert wire.run("loop", "begin", "fashion-edge", "-m", "x", "--dry-run").code == 4
    wire.loops = {"fashion-edge": loop(cycle=None)}
    assert wire.json("loop", "begin", "fashion-edge", "-m", "x", "--dry-run")["dry_run"]
    said = wire.run("loop", "begin", "fashion-edge", "-m", "x")
    assert "fashion-edge-1 collecting" in said.out
    assert "hybridge loop watch fashion-edge" in said.err


@pytest.mark.parametrize(("phase", "code"), [(Phase.DONE, 0), (Phase.REFUSED, 1)])
def test_a_watch_has_a_line_for_each_change_and_ends_with_the_cycle(
    wire: WireLearning, phase: Phase, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watching, "_AT_MOST_EVERY_S", 0.01)
    following = iter(
        (
            asking(),
            asking(),
            cycle(phase=phase, ended_at=NOW + 9, version="1.0.1", why="so it is", revision=5),
        )
    )

    def turn(running: WireLearning) -> None:
        running.turn("fashion-edge", next(following))

    wire.on_long_poll = turn
    said = wire.run("loop", "watch", "fashion-edge")
    assert said.code == code
    lines = said.out.splitlines()
    assert len(lines) == 3
    assert "waits for a person, before approve: hybridge loop go fashion-edge -m WHY" in lines[1]
    assert lines[2].endswith("so it is")


def test_a_watch_that_is_left_says_how_to_come_back(wire: WireLearning) -> None:
    running = subprocess.Popen(
        [HYBRIDGE, "loop", "watch", "fashion-edge", "--learning", wire.url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        assert running.stdout is not None
        assert "training" in running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130
    assert err == "detached: the loop goes on; come back: hybridge loop watch fashion-edge\n"


def test_a_refit_is_shown_first(wire: WireLearning) -> None:
    said = wire.run("loop", "refit", "fashion-edge")
    assert "0.6 -> 0.72" in said.out
    assert "--apply -m WHY" in said.err
    assert not wire.words()
    assert wire.run("loop", "refit", "fashion-edge", "--apply").code == 2
    assert wire.json("loop", "refit", "fashion-edge", "--apply", "-m", "x")["samples"] == 900
    assert wire.words() == ["POST /v1/loops/fashion-edge/refit"]


def test_a_check_that_disagrees_is_code_1(wire: WireLearning) -> None:
    found = FeatureCheck(
        model="fashion-edge", version="1.0.0", at=NOW, samples=20, inputs_differ=0,
        answers_differ=0, largest=1e-6, agrees=True, words="the same",
    )  # fmt: skip
    wire.checks = [found]
    assert wire.run("loop", "checks").code == 0
    assert wire.run("loop", "check", "fashion-edge").code == 0
    wire.checks.append(found.model_copy(update={"agrees": False, "words": "inverted"}))
    said = wire.run("loop", "checks")
    assert (said.code, "inverted" in said.out) == (1, True)


def test_loops_are_listed_shown_and_deleted(wire: WireLearning) -> None:
    wire.turn("fashion-edge", asking())
    listed = wire.run("loop", "list").out
    assert all(part in listed for part in ("approving", "hybridge loop go fashion-edge", "drift"))
    shown = wire.run("loop", "show", "fashion-edge").out
    assert all(part in shown for part in ("asks you", "approve, release", HASH[:16], "one"))
    assert "fashion-edge-1" in wire.run("loop", "cycles", "fashion-edge").out
    assert "fashion-edge-1 began" in wire.run("loop", "history", "fashion-edge-1").out
    assert wire.run("loop", "delete", "fashion-edge").code == 2
    assert wire.run("loop", "delete", "fashion-edge", "--yes").code == 0
    assert "none" in wire.run("loop", "list").out


def test_a_cycle_that_cannot_be_read_is_named_with_what_helps(wire: WireLearning) -> None:
    wire.turn("fashion-edge", asking())
    loop = wire.loops["fashion-edge"]
    wire.loops["fashion-edge"] = loop.model_copy(
        update={"cycle": None, "unreadable": "fashion-edge-1"}
    )
    for verb in ("list", "show"):
        arguments = () if verb == "list" else ("fashion-edge",)
        assert "fashion-edge-1 cannot" in wire.run("loop", verb, *arguments).out
    for command in (("stop", "-m", "x"), ("begin", "-m", "x", "--dry-run"), ("watch",)):
        verb, *more = command
        said = wire.run("loop", verb, "fashion-edge", *more)
        assert (said.code, "hybridge loop delete fashion-edge" in said.err) == (4, True)
    assert wire.run("loop", "delete", "fashion-edge", "--yes").code == 0


@pytest.mark.parametrize(
    ("at", "arrow"),
    [
        (cycle(phase=Phase.COLLECTING), Arrow.DATA_SET),
        (asking(), Arrow.APPROVE),
        (cycle(phase=Phase.WATCHING), Arrow.WATCH),
        (cycle(phase=Phase.DONE), None),
        (cycle(phase=Phase.REFUSED, data_set=None, job=None), Arrow.DATA_SET),
        (cycle(phase=Phase.REFUSED, job=None), Arrow.TRAIN),
        (cycle(phase=Phase.FAILED, version="1.0.1"), Arrow.EVALUATE),
        (cycle(phase=Phase.STOPPED, version="1.0.1", rollout="lyon-1"), Arrow.ROLLOUT),
    ],
)
def test_where_a_cycle_stands(at: Cycle, arrow: Arrow | None) -> None:
    assert arrow_of(at) is arrow


def test_arrows_are_done_up_to_where_it_stands() -> None:
    assert [state for _, state in states(asking(), ASKS)] == [
        "done", "done", "done", "asks you", "asks first", "", "",
    ]  # fmt: skip
    assert {state for _, state in states(cycle(phase=Phase.DONE, ended_at=NOW), ASKS)} == {"done"}
    ended = cycle(phase=Phase.REFUSED, ended_at=NOW, job=None)
    assert [state for _, state in states(ended, ASKS)][:3] == ["done", "ended here", ""]


def test_a_drawing_names_gates_and_the_command_that_helps() -> None:
    finding = Finding(
        name="teacher", holds=False, value=0.4, bound=0.5, words="the cloud is right less often"
    )
    refused = cycle(
        phase=Phase.REFUSED, ended_at=NOW, job=None, findings=(finding,), why="worse \x1b[2J"
    )
    out = Console(width=120, record=True, file=io.StringIO())
    out.print(draw(refused, ASKS, NOW))
    out.print(draw(asking(), ASKS, NOW))
    text = out.export_text()
    assert "the cloud is right less often" in text
    assert "\x1b" not in text
    assert "hybridge model checklist fashion-edge 1.0.1" in text
    assert "hybridge loop stop fashion-edge -m WHY" in text
    assert "the cloud is right less often" in summary(refused)
    assert waits_for(cycle(waits_for="30 more labels")) == "30 more labels"
    assert waits_for(refused) == ""
