"""What a device keeps of its desired state survives restarts, and damage is found."""

from dataclasses import replace
from pathlib import Path

import pytest

from edge.fleet.kept import Kept
from edge.fleet.kept_file import SEQUENCES, load, save
from shared.errors import Unavailable
from tests.edge.fleet.station import profile
from tests.edge.fleet.test_desired import model

KEPT = Kept(model(3), 3, "", profile(2), 2, "why", profile(1), 5000)


def test_it_comes_back_as_it_was_with_numbers_above_those_given_out(tmp_path: Path) -> None:
    save(tmp_path, KEPT)
    back = load(tmp_path, now=0.0)
    assert back.sequence == 5000 + SEQUENCES
    assert (back.model, back.profile, back.applied, back.profile_why) == (
        model(3), profile(2), profile(1), "why",
    )  # fmt: skip
    assert load(tmp_path, now=0.0).sequence == 5000 + 2 * SEQUENCES


def test_what_a_refusal_repeats_of_a_message_does_not_spoil_the_file(tmp_path: Path) -> None:
    """Or one message with a strange name in it takes all generations away at the next start."""
    kept = replace(KEPT, profile_why='settings.\u00e9\u202e\x07"\\\U0001f600: no such setting')
    save(tmp_path, kept)
    assert replace(load(tmp_path, now=0.0), sequence=kept.sequence) == kept


def test_a_wiped_disk_goes_on_above_what_was_said_before(tmp_path: Path) -> None:
    assert load(tmp_path, now=1.8e9).sequence == 1_800_000_000 + SEQUENCES
    assert load(tmp_path / "other", now=-5.0).sequence == SEQUENCES  # a clock before 1970


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.replace(b"why", b"wh!"),
        lambda content: content[:-5],
        lambda content: b"",
        lambda content: b"[" * 60_000,
        lambda content: content.replace(b'"format": 1', b'"format": 2'),
        lambda content: content + b" " * 65_536,
    ],
)  # fmt: skip
def test_a_spoilt_file_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: object
) -> None:
    assert callable(spoil)
    save(tmp_path, KEPT)
    file = tmp_path / "fleet.json"
    file.write_bytes(spoil(file.read_bytes()))
    assert load(tmp_path, 0.0) == Kept(sequence=SEQUENCES)
    assert "fleet_state_unreadable" in [r.message for r in caplog.records]


def test_a_disk_that_takes_nothing_is_said_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable):
        save(tmp_path / "file", KEPT)
    assert load(tmp_path / "file", 0.0).sequence == SEQUENCES
    assert "fleet_state_not_written" in [r.message for r in caplog.records]
