"""`hybridge train` against a learning process at the wire."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.cli.train_words import next_patch, summary
from cloud.training.documents import JobState, LogLine, Quota
from shared.errors import Malformed
from tests.cloud.cli.learning_views import ARTIFACT, HASH, NOW, job, run_of
from tests.cloud.cli.own_registry import hybridge
from tests.cloud.cli.wire_learning import WireLearning, wire_learning

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
RECIPE = """
team = "vision"
cpus = 2
data_set = "field"

[recipe]
kind = "finetune"
student = "fashion-edge@1.0.0"
version = "1.0.1"
base = "fashion-mnist"
"""


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireLearning]:
    monkeypatch.setenv("COLUMNS", "300")  # a refusal is not broken in the middle of a word
    with wire_learning() as running:
        yield running


def with_field(wire: WireLearning) -> WireLearning:
    for _ in range(3):
        wire.run("feedback", "data-set", "build", "field", "--model", "fashion-edge")
    wire.asked.clear()
    return wire


def test_a_file_is_handed_in_with_its_data_set_by_name(wire: WireLearning, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(RECIPE)
    said = with_field(wire).run("train", "submit", str(file), "--priority", "8")
    assert said.code == 0, said.err
    assert "job-0 queued, place 1; finetune fashion-edge@1.0.0 -> 1.0.1" in said.out
    assert "hybridge train logs job-0 -f" in said.err
    spec = wire.jobs["job-0"].spec
    assert (spec.team, spec.cpus, spec.priority, spec.data_set) == ("vision", 2, 8, HASH)


def test_options_alone_make_the_next_patch(wire: WireLearning) -> None:
    options = ("--finetune", "fashion-edge@1.0.9", "--data-set", "field@2", "--epochs", "3")
    made = with_field(wire).json("train", "submit", *options)
    assert made["spec"]["recipe"]["version"] == "1.0.10"
    fitting = made["spec"]["recipe"]["fitting"]
    assert (fitting["epochs"], fitting["optimizer"], fitting["batch"]) == (3, "adamw", 64)
    assert "/v1/data-sets/field/2" in [path for _, path, _ in wire.asked]


def test_a_dry_run_hands_in_nothing(wire: WireLearning) -> None:
    options = ("--finetune", "fashion-edge@1.0.0", "--data-set", "field", "--dry-run")
    assert "would hand in finetune" in with_field(wire).run("train", "submit", *options).out
    assert not wire.words()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RECIPE.replace("cpus = 2", "cpsu = 2"), "Did you mean 'cpus'"),
        (RECIPE.replace("student", "studnet"), "Did you mean 'student'"),
        (RECIPE.replace('"finetune"', '"finetine"'), "finetine"),
        (RECIPE.replace('data_set = "field"', ""), "finetune needs one"),
        (RECIPE.replace('"field"', '"Field!"'), "write it as NAME, NAME@3 or its SHA-256"),
        (RECIPE.replace('"field"', '"feild"'), "Did you mean 'field'"),
        ("recipe = 3", "recipe"),
        ("[recipe", "not TOML"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_in_words(
    wire: WireLearning, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)
    said = with_field(wire).run("train", "submit", str(file))
    assert said.code == 1
    assert words in said.err
    assert not wire.words()


def test_the_job_of_the_page_is_one(wire: WireLearning, tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    file.write_text(text)
    said = with_field(wire).run("train", "submit", str(file), "--dry-run")
    assert (said.code, "2 CPUs, team vision" in said.out) == (0, True), said.err


def test_a_file_and_options_at_once_are_wrong_usage(wire: WireLearning) -> None:
    assert wire.run("train", "submit").code == 2
    assert wire.run("train", "submit", "x.toml", "--finetune", "a@1.0.0").code == 2


def test_nobody_to_ask_is_wrong_usage_and_a_dead_one_is_code_3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("HYBRIDGE_LEARNING", raising=False)
    said = hybridge("train", "list")
    assert (said.code, "--learning URL, or HYBRIDGE_LEARNING" in said.err) == (2, True)
    monkeypatch.setenv("HYBRIDGE_PATIENCE_S", "0.01")
    said = hybridge("train", "list", "--learning", "http://127.0.0.1:9")
    assert (said.code, "the learning process cannot be reached" in said.err) == (3, True)


def test_all_jobs_come_page_by_page(wire: WireLearning) -> None:
    wire.jobs = {name: job(name) for name in ("a", "b", "c", "d", "e")}
    assert [one["id"] for one in wire.json("train", "list")] == list("abcde")
    assert [one["id"] for one in wire.json("train", "list", "--limit", "3")] == list("abc")
    assert wire.json("train", "list", "--state", "failed") == []
    said = wire.run("train", "list", "--state", "runing")
    assert (said.code, "Did you mean 'running'" in said.err) == (2, True)


def test_a_job_that_is_not_there_suggests_one_that_is(wire: WireLearning) -> None:
    wire.jobs = {"fashion-edge-one": job("fashion-edge-one")}
    for command in (("show",), ("logs",), ("cancel", "-m", "x")):
        said = wire.run("train", command[0], "fashion-edge-on", *command[1:])
        assert (said.code, "Did you mean 'fashion-edge-one'" in said.err) == (1, True)


def test_a_job_is_shown_with_its_run(wire: WireLearning) -> None:
    wire.jobs, wire.runs = {"one": job("one")}, {"one": run_of("one")}
    drawn = wire.run("train", "show", "one").out
    assert all(part in drawn for part in ("running, 40%", "clean.accuracy", "bundle.hyb", HASH))
    assert wire.json("train", "show", "one")["run"]["machine"] == "2 cores"


def test_a_followed_job_ends_with_its_last_line_and_its_code(wire: WireLearning) -> None:
    wire.jobs = {"one": job("one")}
    wire.lines = [LogLine(seq=n, at=NOW, text=f"line {n}") for n in range(1, 4)]

    def end(running: WireLearning) -> None:
        if not any(one.seq == 4 for one in running.lines) and len(running.asked) > 6:
            running.lines.append(LogLine(seq=4, at=NOW, text="loss is NaN\x1b[2J"))
            running.jobs["one"] = job("one", state=JobState.FAILED, ended_at=NOW, why="NaN loss")

    wire.on_long_poll = end
    said = wire.run("train", "logs", "one", "-f")
    assert said.code == 1
    lines = [line.partition("  ")[2] for line in said.out.splitlines()]
    assert lines == ["line 1", "line 2", "line 3", "loss is NaN?[2J"]
    assert "one failed; finetune fashion-edge@1.0.0 -> 1.0.1; NaN loss" in said.err
    assert len(wire.run("train", "logs", "one").out.splitlines()) == 4
    assert wire.run("train", "logs", "one", "--after", "3").out.count("\n") == 1


def test_a_job_that_is_over_already_is_followed_to_its_last_line(wire: WireLearning) -> None:
    wire.jobs = {"one": job("one", state=JobState.DONE, ended_at=NOW)}
    wire.lines = [LogLine(seq=n, at=NOW, text=f"line {n}") for n in range(1, 6)]
    said = wire.run("train", "logs", "one", "-f", "-o", "json")
    assert (said.code, said.out.count("\n")) == (0, 5)  # two in each answer


def test_cancel_and_priority_say_what_became_of_it(wire: WireLearning) -> None:
    wire.jobs = {"one": job("one")}
    assert "would cancel one" in wire.run("train", "cancel", "one", "-m", "x", "--dry-run").out
    assert not wire.words()
    assert wire.json("train", "priority", "one", "9")["spec"]["priority"] == 9
    assert wire.json("train", "cancel", "one", "-m", "wrong")["why"] == "wrong"
    wire.jobs["one"] = job("one", ended_at=NOW, state=JobState.DONE)
    assert wire.run("train", "cancel", "one", "-m", "late").code == 4
    assert wire.run("train", "priority", "one", "10").code == 2


def test_a_quota_keeps_what_is_not_given(wire: WireLearning) -> None:
    wire.quotas = {"vision": Quota(team="vision", cpus_max=4, queued_max=7, weight=2.0)}
    assert wire.json("train", "quota", "set", "vision", "--cpus", "1", "--dry-run")["dry_run"]
    assert not wire.words()
    found = wire.json("train", "quota", "set", "vision", "--cpus", "1")
    assert found == {"team": "vision", "cpus_max": 1, "queued_max": 7, "weight": 2.0}
    assert wire.run("train", "quota", "set", "audio").code == 2
    assert wire.run("train", "quota", "set", "a/b", "--cpus", "1").code == 1
    said = wire.run("train", "quota", "delete", "visoin")
    assert (said.code, "Did you mean 'vision'" in said.err) == (1, True)
    assert wire.json("train", "quota", "delete", "vision") == {"deleted": "vision"}


def test_an_artifact_is_checked_by_its_hash(wire: WireLearning, tmp_path: Path) -> None:
    wire.jobs, wire.runs = {"one": job("one")}, {"one": run_of("one")}
    target = tmp_path / "b.hyb"
    found = wire.json("train", "get", "one", "bundle.hyb", "--out", str(target))
    assert (found["bytes"], target.read_bytes()) == (len(ARTIFACT), ARTIFACT)
    said = wire.run("train", "get", "one", "bundel.hyb", "--out", str(target))
    assert (said.code, "Did you mean 'bundle.hyb'" in said.err) == (1, True)
    (artifact,) = wire.runs["one"].artifacts
    wrong = artifact.model_copy(update={"sha256": HASH})
    wire.runs["one"] = run_of("one", artifacts=(wrong,))
    said = wire.run("train", "get", "one", "bundle.hyb", "--out", str(tmp_path / "c.hyb"))
    assert (said.code, "another hash" in said.err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["b.hyb"]


def test_compared_runs_show_what_differs_and_mark_the_best(
    wire: WireLearning, tmp_path: Path
) -> None:
    wire.jobs = {name: job(name) for name in ("one", "two")}
    figures = {"clean.accuracy": 0.92, "loss": 0.4, "temperature": 1.0}
    other = run_of("two", parameters={"fitting": {"epochs": 9, "seed": 0}}, figures=figures)
    wire.runs = {"one": run_of("one"), "two": other}
    plot = tmp_path / "curves.svg"
    found = wire.json("train", "compare", "one", "two", "--plot", str(plot))
    assert found["parameters"] == {"fitting.epochs": [8, 9]}
    assert found["figures"]["clean.accuracy"] == {"values": [0.9, 0.92], "best": ["two"]}
    assert found["figures"]["loss"]["best"] == ["one"]
    assert found["figures"]["temperature"] == {"values": [None, 1.0], "best": []}
    assert b"<svg" in plot.read_bytes()
    before = plot.read_bytes()
    wire.run("train", "compare", "one", "two", "--plot", str(plot))
    assert plot.read_bytes() == before
    assert "0.92 *" in wire.run("train", "compare", "one", "two").out
    said = wire.run("train", "compare", "one", "two", "--metric", "los")
    assert (said.code, "Did you mean 'loss'" in said.err) == (1, True)
    assert wire.run("train", "compare", "one", "one").code == 2
    assert wire.run("train", "compare", "one", "two", "--plot", "x.gif").code == 2


def test_words() -> None:
    assert next_patch("fashion-edge@1.2.9") == "1.2.10"
    with pytest.raises(Malformed, match="MODEL@VERSION"):
        next_patch("fashion-edge")
    done = job("one", state=JobState.DONE, ended_at=NOW, bundle="fashion-edge@1.0.1", worked_s=90)
    assert summary(done) == (
        "one done; finetune fashion-edge@1.0.0 -> 1.0.1; worked 2 min; made fashion-edge@1.0.1"
    )
