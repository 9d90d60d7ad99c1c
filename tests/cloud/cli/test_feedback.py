"""`hybridge feedback` against a learning process at the wire."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cloud.cli.feedback_answers import Again, Back, Quit, Say, Skip, answer_of
from cloud.cli.feedback_picture import picture
from cloud.cli.feedback_words import label_of, moment_of, person_text
from cloud.feedback.documents import Label, Source
from shared.errors import Malformed
from tests.cloud.cli.learning_views import NOW, png, sample, sample_id
from tests.cloud.cli.own_fleet import HYBRIDGE
from tests.cloud.cli.wire_learning import WireLearning, wire_learning

NAMES = ("t-shirt", "trouser", "shirt", "sneaker")
LABELS = ("--labels", ",".join(NAMES))


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireLearning]:
    monkeypatch.setenv("COLUMNS", "300")
    with wire_learning() as running:
        running.samples = {one.id: one for one in map(sample, range(5))}
        yield running


def test_samples_are_listed_with_names_and_all_of_what_was_asked(wire: WireLearning) -> None:
    said = wire.run("feedback", "list", *LABELS, "--limit", "3")
    assert said.out.count("cam-") == 3
    assert "trouser 55%" in said.out
    assert "shirt 71%" in said.out
    assert "there are more: --limit 30" in said.err
    assert len(wire.json("feedback", "list")) == 5
    wire.asked.clear()
    options = (
        "--unsure", "60%", "--disputed", "--contradicted", "--unlabelled", "--since",
        "2026-05-04", "--label", "shirt", "--reason", "novel", "--source", "cloud", "--device", "cam-1",
        "--cloud-model", "fashion-cloud",
    )  # fmt: skip
    assert wire.run("feedback", "list", *LABELS, *options).code == 0
    assert wire.asked[0][1] == (
        "/v1/feedback/samples?device=cam-1&reason=novel&label=2&source=cloud&since=1777852800.0"
        "&unsure=0.6&disputed=true&contradicted=true&unlabelled=true"
        "&cloud_model=fashion-cloud&limit=51"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--unsure", "lots"), "write it as 5% or 0.05"),
        (("--since", "yesterday"), "so long ago as 2h"),
        (("--label", "shrit", *LABELS), "Did you mean 'shirt'"),
        (("--label", "9", *LABELS), "the model has 4, from 0 to 3"),
        (("--label", "shirt"), "not known here"),
        (("--since", "1h", "--until", "2h", "--device", "a b"), "device"),
        (("--labels", "a,,b"), "each label's name once"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_in_words(
    wire: WireLearning, options: tuple[str, ...], words: str
) -> None:
    said = wire.run("feedback", "list", *options)
    assert (said.code, words in said.err) == (1, True), said.err
    assert not wire.asked


def test_a_narrow_terminal_has_room_for_what_is_to_be_pasted(
    wire: WireLearning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = wire.run("feedback", "list", *LABELS)
    assert all(name in said.out for name in wire.samples)
    assert "shirt" in said.out


def test_a_registry_that_does_not_answer_costs_names_only(wire: WireLearning) -> None:
    said = wire.run("feedback", "list", "--registry", "http://127.0.0.1:9")
    assert said.code == 0
    assert "labels are shown as numbers" in said.err


def test_a_persons_word_counts_and_can_be_taken_back(wire: WireLearning) -> None:
    name = sample_id(1)
    dry = wire.json("feedback", "label", "cam-1", name, "sneaker", *LABELS, "--dry-run")
    assert (dry["label"], wire.words()) == (3, [])
    found = wire.json("feedback", "label", "cam-1", name, "sneak", *LABELS, "-m", "sole")
    assert (found["label"], found["label_source"]) == (3, "person")
    shown = wire.run("feedback", "show", "cam-1", name, *LABELS).out
    assert all(part in shown for part in ("sneaker, by person", "sole", "trouser 55%"))
    assert wire.json("feedback", "unlabel", "cam-1", name)["label_source"] == "cloud"
    said = wire.run("feedback", "label", "cam-1", name, "shoe", *LABELS)
    assert (said.code, "0 t-shirt, 1 trouser" in said.err) == (1, True)


def test_an_image_is_written_or_needs_a_terminal(wire: WireLearning, tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    assert wire.run("feedback", "image", "cam-1", sample_id(1), "--out", str(target)).code == 0
    assert target.read_bytes() == png()
    said = wire.run("feedback", "image", "cam-1", sample_id(1))
    assert (said.code, "give --out FILE.png" in said.err) == (2, True)
    assert wire.run("feedback", "image", "cam-1", sample_id(1), "--out", "a.gif").code == 2
    tensor = tmp_path / "a.npy"
    wire.run("feedback", "image", "cam-1", sample_id(1), "--out", str(tensor))
    assert tensor.read_bytes().startswith(b"npy of ")


def test_deleting_says_how_much_first_and_needs_a_yes(wire: WireLearning) -> None:
    assert wire.run("feedback", "delete", "-m", "x").code == 2
    dry = wire.json("feedback", "delete", "--device", "cam-1", "-m", "x", "--dry-run")
    assert dry["rows"] == 2
    said = wire.run("feedback", "delete", "--device", "cam-1", "-m", "x")
    assert (said.code, "give --yes" in said.err) == (2, True)
    assert not wire.words()
    said = wire.run("feedback", "delete", "--device", "cam-1", "-m", "x", "--yes")
    assert "deleted 2 samples" in said.out
    assert "field 1" in said.err
    assert wire.asked[-1][2] == {"device": "cam-1", "comment": "x"}


def test_a_data_set_from_options_over_a_file(wire: WireLearning, tmp_path: Path) -> None:
    spec = tmp_path / "field.toml"
    spec.write_text('model = "fashion-edge"\nrows_max = 5\nholdout_share = 0.2\n')
    plan = wire.run("feedback", "data-set", "plan", "--spec", str(spec))
    assert (plan.code, "low_rank 2" in plan.out) == (0, True)
    for command in (("plan",), ("build", "field", "--dry-run")):
        said = wire.run("feedback", "data-set", *command, "--spec", str(spec), "--rows", "1")
        assert (said.code, "a single class" in said.out) == (1, True)
    assert not wire.sets
    made = wire.json(
        "feedback", "data-set", "build", "field", "--spec", str(spec), "--rows", "9",
        "--half-life", "7d", "--reason", "audit", "--reason", "novel",
    )  # fmt: skip
    assert (
        made["spec"] | {"rows_max": 9, "holdout_share": 0.2, "half_life_s": 604_800.0}
        == (made["spec"])
    )
    assert made["spec"]["reasons"] == ["audit", "novel"]
    target = tmp_path / "field.npz"
    assert wire.run("feedback", "data-set", "get", "field", "--out", str(target)).code == 0
    assert target.read_bytes() == b"npz"
    said = wire.run("feedback", "data-set", "get", "feild")
    assert (said.code, "Did you mean 'field'" in said.err) == (1, True)
    assert wire.run("feedback", "data-set", "delete", "field", "1", "--yes").code == 0
    assert wire.json("feedback", "data-set", "list") == []
    spec.write_text('model = "fashion-edge"\nrow_max = 5\n')
    said = wire.run("feedback", "data-set", "plan", "--spec", str(spec))
    assert (said.code, "Did you mean 'rows_max'" in said.err) == (1, True)
    assert wire.run("feedback", "data-set", "plan").code == 2


def test_a_review_without_a_terminal_fails_in_words(wire: WireLearning) -> None:
    said = wire.run("feedback", "review")
    assert (said.code, "hybridge feedback label DEVICE SAMPLE LABEL" in said.err) == (2, True)
    assert not wire.asked
    assert wire.json("feedback", "review", "--dry-run")["samples"] == 5


def test_a_review_labels_goes_back_and_goes_on_where_it_was_left(wire: WireLearning) -> None:
    # right; wrong, back, sneaker; nonsense, then skip; end
    said = reviewed(wire, "", "trouser", "-", "sneaker", "xyz", ".", ":q")
    assert "label 'xyz': there is none" in said
    assert "3 labelled, 1 skipped" in said
    assert "\x1b[" in said  # the images were drawn
    labels = {name: one.label for name, one in wire.samples.items() if one.labels}
    assert labels == {sample_id(0): 2, sample_id(1): 3}
    wire.asked.clear()
    again = reviewed(wire, ":q")
    assert "3 samples" in again  # what is left


def reviewed(wire: WireLearning, *typed: str) -> str:
    """What a person at a terminal saw."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [HYBRIDGE, "feedback", "review", "--learning", wire.url, *LABELS],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "300"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    answers = [*typed]
    try:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # it has ended
                break
            if not part:
                break
            asked = seen.count(b"]? ")
            seen += part
            for _ in range(seen.count(b"]? ") - asked):
                os.write(ours, answers.pop(0).encode() + b"\n")
        assert running.wait(30) == 0, seen.decode()
    finally:
        running.kill()
        running.wait(30)
        os.close(ours)
    return seen.decode()


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("", Say(2)), ("sneaker", Say(3)), ("T-SHIRT", Say(0)), ("1", Say(1)), ("tr", Say(1)),
        (".", Skip()), ("-", Back()), (":q", Quit()),
    ],
)  # fmt: skip
def test_what_is_typed(typed: str, answer: object) -> None:
    assert answer_of(typed, sample(1), NAMES) == answer


def test_what_is_typed_and_means_nothing_is_asked_again() -> None:
    found = answer_of("t", sample(1), NAMES)
    assert found == Again("label 't': there is none; it may be t-shirt or trouser")
    assert isinstance(answer_of("?", sample(1), ()), Again)
    with pytest.raises(Malformed, match="not known here"):
        label_of("shirt", ())


def test_times_are_dates_or_so_long_ago() -> None:
    assert moment_of("2026-05-04", "x", NOW) == 1777852800.0
    assert moment_of("2026-05-04T02:00+02:00", "x", NOW) == 1777852800.0
    assert moment_of("2h", "x", NOW) == NOW - 7200


def test_people_who_differ_are_both_named() -> None:
    both = tuple(
        Label(label=label, source=Source.PERSON, by=who, at=NOW)
        for label, who in ((1, "anna"), (2, "ben"))
    )
    found = sample(1, labels=both, contradicted=True, label_source=Source.PERSON)
    assert person_text(found, NAMES) == "trouser? shirt?"


def test_a_picture_is_as_wide_as_there_is_room() -> None:
    pixels = np.zeros((3, 8, 3), np.uint8)
    pixels[0] = 255
    drawn = picture(pixels, 80, has_colours=True)
    assert drawn.plain == ("▀" * 8 + "\n") * 2
    assert str(drawn.spans[0].style) == "#ffffff on #000000"
    assert picture(pixels, 80, has_colours=False).plain.startswith("++++")
    assert picture(np.zeros((8, 100, 3), np.uint8), 30, has_colours=True).plain.count("▀") == 25
