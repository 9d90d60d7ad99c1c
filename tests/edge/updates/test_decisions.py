"""The small pure parts: compatibility, the plan, windows, the trial, latency."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from edge.updates.compatible import why_not
from edge.updates.missing import Missing
from edge.updates.plan import DeltaOffer, best_delta, files_of, lacking_bytes
from edge.updates.settings import UpdateSettings
from edge.updates.target import Target
from edge.updates.trial import CpuBudget, Tally, Terms, judge, judge_staged, latency_fault
from edge.updates.windows import changes_in_s, is_open
from shared.bundle.manifest import File, Manifest
from shared.bundle.reader import open_bundle
from shared.day_span import parse_span
from shared.errors import Malformed, TooLarge
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return open_bundle(write_tiny_bundle(tmp_path / "bundle")).manifest


# Compatibility


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "other"}, "the model other"),
        ({"task": "embed"}, "task"),
        ({"labels": ("class-0", "class-2", "class-1")}, "label 1"),
        ({"labels": ("class-0", "class-1")}, "2 of them"),
        ({"inputs": ()}, "inputs"),
        ({"backbone": "x"}, "cut model"),
    ],
)
def test_what_cannot_stand_in_is_refused_in_words(
    manifest: Manifest, changes: dict[str, object], words: str
) -> None:
    why = why_not(manifest, manifest.model_copy(update=changes))
    assert why is not None
    assert words in why


def test_another_version_with_other_outputs_of_the_same_labels_stands_in(
    manifest: Manifest,
) -> None:
    assert why_not(manifest, manifest.model_copy(update={"version": "2.0.0"})) is None


# The plan


def with_card(manifest: Manifest, path: str, size: int = 10) -> Manifest:
    card = File(path=path, sha256="a" * 64, bytes=size)
    return manifest.model_copy(update={"card": card})


@pytest.mark.parametrize("path", ["manifest.json", "x.partial", "x.etag", "variants"])
def test_a_list_of_files_that_cannot_be_laid_out_is_refused(manifest: Manifest, path: str) -> None:
    with pytest.raises(Malformed, match="rename"):
        files_of(with_card(manifest, path), "it")


def test_too_many_bytes_are_refused_before_one_is_fetched(manifest: Manifest) -> None:
    with pytest.raises(TooLarge):
        files_of(with_card(manifest, "card.md", 600 * 1024 * 1024), "it")


def test_the_smallest_delta_that_fits_and_is_worth_it_is_taken() -> None:
    wanted = File(path="f", sha256="f" * 64, bytes=1000)
    fits = DeltaOffer("a" * 64, "f" * 64, "1" * 64, 500)
    smaller = DeltaOffer("b" * 64, "f" * 64, "2" * 64, 100)
    foreign = DeltaOffer("c" * 64, "f" * 64, "3" * 64, 10)
    dear = DeltaOffer("a" * 64, "f" * 64, "4" * 64, 601)
    other = DeltaOffer("a" * 64, "e" * 64, "5" * 64, 5)
    offers = (dear, fits, smaller, foreign, other)
    assert best_delta(offers, wanted, ["a" * 64, "b" * 64]) == smaller
    assert best_delta(offers, wanted, ["a" * 64]) == fits
    assert best_delta((dear, other, foreign), wanted, ["a" * 64]) is None
    huge = wanted.model_copy(update={"bytes": 2**30})
    assert best_delta((smaller,), huge, ["b" * 64]) is None


def test_the_margin_on_the_disk_stays_free() -> None:
    assert lacking_bytes(100, 150, 50) == 0
    assert lacking_bytes(100, 149, 50) == 1


# Windows


def at(text: str, zone: str = "Europe/Berlin") -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def test_a_window_over_midnight() -> None:
    spans = (parse_span("22:00-05:00"),)
    assert is_open(spans, at("2026-05-01 23:00"))
    assert is_open(spans, at("2026-05-02 04:59"))
    assert not is_open(spans, at("2026-05-02 05:00"))
    assert changes_in_s(spans, at("2026-05-01 23:00")) == 6 * 3600
    assert changes_in_s(spans, at("2026-05-02 05:00")) == 17 * 3600


def test_windows_that_touch_are_one() -> None:
    spans = (parse_span("01:00-03:00"), parse_span("03:00-04:00"))
    assert changes_in_s(spans, at("2026-05-01 02:00")) == 2 * 3600
    day = (parse_span("00:00-12:00"), parse_span("12:00-00:00"))
    assert is_open(day, at("2026-05-01 12:00"))
    assert changes_in_s(day, at("2026-05-01 12:00")) is None
    assert is_open((), at("2026-05-01 12:00"))
    assert changes_in_s((), at("2026-05-01 12:00")) is None


def test_a_window_in_the_hour_that_the_clock_skips_does_not_hang() -> None:
    spans = (parse_span("02:00-02:30"),)  # on 29 March 2026 there is no half past two in Berlin
    pause = changes_in_s(spans, at("2026-03-29 01:59"))
    assert pause is not None
    assert 0 < pause <= 86_400


@pytest.mark.parametrize("text", ["", "1:00-5:00", "24:00-05:00", "01:00", "03:00-03:00", "a-b"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="window"):
        parse_span(text)


# Trial


def terms(**changes: object) -> Terms:
    tree: dict[str, object] = {
        "samples": 40, "samples_min": 20, "s_max": 60.0, "agreement_min": 0.8, "p95_ms_max": 10.0,
        "few_samples": "accept",
    }  # fmt: skip
    return Terms(**(tree | changes))  # type: ignore[arg-type]


def tally(ran: int, agreed: int, latency_ms: float = 1.0) -> Tally:
    it = Tally()
    for number in range(ran):
        it.add(agrees=number < agreed, finite=True, latency_ms=latency_ms)
    return it


def test_a_trial_goes_on_until_it_has_its_samples_or_its_time() -> None:
    assert judge(terms(), tally(39, 39), 1.0) is None
    for verdict in (judge(terms(), tally(40, 40), 1.0), judge(terms(), tally(20, 20), 60.0)):
        assert verdict is not None
        assert verdict.accepted


def test_too_few_samples_are_decided_by_the_settings() -> None:
    accepted = judge(terms(), tally(19, 0), 60.0)
    rejected = judge(terms(few_samples="reject"), tally(19, 19), 60.0)
    assert accepted is not None
    assert accepted.accepted
    assert "golden samples alone" in accepted.why
    assert rejected is not None
    assert not rejected.accepted


def test_a_candidate_that_agrees_too_little_is_rejected() -> None:
    verdict = judge(terms(), tally(40, 31), 1.0)
    assert verdict is not None
    assert not verdict.accepted
    assert "77.5%" in verdict.why
    enough = judge(terms(), tally(40, 32), 1.0)
    assert enough is not None
    assert enough.accepted


def test_only_what_the_active_model_was_sure_of_is_held_against_a_candidate() -> None:
    """Under a shift that the active model never saw, another answer is what a new version is for."""
    it = tally(20, 19)
    for _ in range(20):
        it.add(agrees=False, finite=True, latency_ms=1.0, sure=False)
    verdict = judge(terms(), it, 1.0)
    assert verdict is not None
    assert verdict.accepted
    assert "95.0% as the active model of the 20 it was sure of" in verdict.why
    assert judge_staged(terms(), it) is None


def test_where_the_active_model_is_sure_of_little_nothing_is_held_against_a_candidate() -> None:
    it = tally(19, 0)
    for _ in range(21):
        it.add(agrees=False, finite=True, latency_ms=1.0, sure=False)
    verdict = judge(terms(), it, 1.0)
    assert verdict is not None
    assert verdict.accepted
    it.add(agrees=False, finite=True, latency_ms=1.0)
    verdict = judge(terms(), it, 1.0)
    assert verdict is not None
    assert not verdict.accepted


def test_a_candidate_that_is_slow_on_live_samples_is_rejected() -> None:
    slow = tally(37, 37)
    for _ in range(3):
        slow.add(agrees=True, finite=True, latency_ms=11.0)
    verdict = judge(terms(), slow, 1.0)
    assert verdict is not None
    assert "too slow" in verdict.why


def test_one_answer_that_is_not_finite_ends_a_trial() -> None:
    it = tally(1, 1)
    it.add(agrees=False, finite=False, latency_ms=1.0)
    verdict = judge(terms(), it, 0.1)
    assert verdict is not None
    assert "NaN" in verdict.why


def test_a_staged_candidate_is_rejected_only_beyond_chance() -> None:
    assert judge_staged(terms(), tally(19, 0)) is None  # too few
    assert judge_staged(terms(), tally(40, 25)) is None  # a trial would reject it
    far = judge_staged(terms(), tally(20, 8))
    assert far is not None
    assert "far too little" in far.why
    slow = tally(90, 90)
    for _ in range(10):
        slow.add(agrees=True, finite=True, latency_ms=11.0, slow=True)
    assert judge_staged(terms(), slow) is None
    for _ in range(10):
        slow.add(agrees=True, finite=True, latency_ms=11.0, slow=True)
    verdict = judge_staged(terms(), slow)
    assert verdict is not None
    assert "20 of 110 took over 10 ms" in verdict.why


def test_one_answer_that_is_not_finite_ends_a_staged_candidate() -> None:
    it = tally(0, 0)
    it.add(agrees=False, finite=False, latency_ms=1.0)
    verdict = judge_staged(terms(), it)
    assert verdict is not None
    assert not verdict.accepted


def test_half_of_the_cpu_budget_is_kept_for_samples_that_go_first() -> None:
    budget = CpuBudget(0.1)
    used = {True: 0.0, False: 0.0}
    for tick in range(1000):  # as above; one sample in four goes first
        first = tick % 4 == 0
        if budget.allows(tick / 100, first=first):
            budget.spend(0.02)
            used[first] += 0.02
    assert used[True] > 0.9
    assert used[False] < 0.2


def test_the_cpu_budget_is_a_share_of_a_core() -> None:
    budget = CpuBudget(0.1)
    used = 0.0
    for tick in range(1000):  # 10 s in steps of 10 ms; a run takes 20 ms
        if budget.allows(tick / 100):
            budget.spend(0.02)
            used += 0.02
    assert 0.95 <= used <= 1.25


@pytest.mark.parametrize(
    ("candidate_ms", "active_ms", "faulty"),
    [(5.0, 1.0, True), (2.9, 1.0, False), (26.0, 20.0, True), (24.0, None, False),
     (float("nan"), 1.0, True), (1.0, float("nan"), True), (float("nan"), None, True)],
)  # fmt: skip
def test_latency_is_held_against_the_budget_and_the_active_model(
    candidate_ms: float, active_ms: float | None, faulty: bool
) -> None:
    assert (latency_fault(candidate_ms, active_ms, 25.0, 3.0) is not None) == faulty


# What the fleet asks for and the metadata does not name


def test_what_is_missing_is_waited_for_a_bounded_time_and_anew_for_another_target() -> None:
    missing, wanted = Missing(60.0), Target(1, "2.0.0", "b" * 64)
    assert missing.note(wanted, 100.0)
    assert missing.note(replace(wanted, generation=2, stage="shadow"), 159.0)
    assert missing.looks == 2
    assert not missing.note(wanted, 160.0)
    assert not missing.soon
    assert missing.note(replace(wanted, attempt=2), 161.0)
    assert not missing.note(None, 162.0)
    assert missing.note(wanted, 500.0)


# Settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"windows": ["25:00-01:00"]}, "window"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone"),
        ({"trial_samples_min": 500}, "trial_samples_min"),
        ({"pin": "newest"}, "pin"),
        ({"urls": []}, "urls"),
        ({"slower_max": 0.5}, "slower_max"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        UpdateSettings.model_validate({"urls": ["https://a"], "root": "r.json"} | changes)


def test_paths_are_relative_to_the_settings_file() -> None:
    made = UpdateSettings.model_validate(
        {"urls": ["https://a"], "root": "r.json", "api_key_file": "key", "ca": "/etc/ca.pem"}
    ).rooted(Path("/etc/hybridge"))
    assert (made.root, made.api_key_file) == (
        Path("/etc/hybridge/r.json"),
        Path("/etc/hybridge/key"),
    )
    assert made.ca == Path("/etc/ca.pem")
