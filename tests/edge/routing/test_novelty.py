"""A watch over made-up inputs: what it looks at, what it takes for novel, and when it calms down."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from pydantic import ValidationError

from edge.routing.novelty import EVERY, NoveltyWatch
from edge.routing.settings import Budget, Novelty
from edge.telemetry.sketching import Sketching
from tests.edge.routing.references import images, made, probabilities

REFERENCE = made()
KNOWN = images(3_000, seed=1)
SAYS = probabilities(3_000, seed=1)
FAULTY = (KNOWN * 0.4).astype(np.uint8)
"""Darker and with less contrast: each one beyond the reference's last bin."""
PLAIN = 0.01


class Stream:
    """Samples one a second."""

    def __init__(self, settings: Novelty | None = None, budget: Budget | None = None) -> None:
        self.settings = settings or Novelty()
        self.watch = NoveltyWatch(
            Sketching(REFERENCE), self.settings, budget or Budget(), PLAIN, 0.0
        )
        self._seconds = count(1)

    def sees(self, inputs: Iterable["np.typing.NDArray[np.uint8]"]) -> list[bool]:
        """Of each, whether it was novel."""
        return [self._sees(one) for one in inputs]

    def _sees(self, image: "np.typing.NDArray[np.uint8]") -> bool:
        now = next(self._seconds)
        says = SAYS[now % len(SAYS)]
        due = self.watch.said(int(says.argmax()), float(says.max()))
        return due and self.watch.look(image, float(now))


def test_known_inputs_leave_it_calm_and_one_in_four_is_looked_at() -> None:
    stream = Stream()
    novel = stream.sees(KNOWN)
    assert sum(novel) <= 0.005 * len(novel)
    seen = stream.watch.seen()
    assert (seen.level, seen.audit_share) == ("calm", PLAIN)
    assert 1 / EVERY <= seen.looked / len(KNOWN) <= 0.3


def test_a_score_just_below_nothing_is_shown_as_nothing() -> None:
    seen = replace(Stream().watch.seen(), score=-0.004)
    assert str(seen.fields()["score"]) == "0.0"


def test_after_a_novel_input_the_next_one_is_looked_at() -> None:
    stream = Stream()
    stream.sees(KNOWN[:101])
    novel = stream.sees(FAULTY[:200])
    assert novel.index(True) < EVERY
    assert all(novel[novel.index(True) :])
    seen = stream.watch.seen()
    assert (seen.level, seen.audit_share) == ("novel", stream.settings.audit_share)


def test_it_calms_down_once_inputs_are_known_again() -> None:
    stream = Stream()
    stream.sees(FAULTY[:200])
    stream.sees(KNOWN[: 64 + 128 - 16])
    assert stream.watch.level == "novel"
    stream.sees(KNOWN[200:240])
    seen = stream.watch.seen()
    assert (seen.level, seen.audit_share) == ("calm", PLAIN)


def test_a_shift_within_the_reference_is_found_by_many_inputs_together() -> None:
    within = np.clip(KNOWN.astype(int) + 22, 0, 255).astype(np.uint8)
    stream = Stream()
    novel = stream.sees(within[:600])
    assert stream.watch.level == "novel"
    assert stream.watch.seen().feature == "input_mean"
    assert sum(novel) / len(novel) < 0.25, "no single one gives it away"


def test_while_inputs_are_novel_less_rare_bins_count_too() -> None:
    bright = [image for image in KNOWN if 152 < image.mean() < 162]
    assert len(bright) > 20
    calm, alert = Stream(), Stream()
    alert.sees(FAULTY[:200])
    assert sum(alert.sees(bright[:20])) > 3 + sum(calm.sees(bright[:20]))


def test_unusual_answers_are_found_by_the_longer_window() -> None:
    watch = Stream().watch
    for n, image in enumerate(KNOWN[:1_500]):
        if watch.said(n % 4, 0.4):
            watch.look(image, float(n))
        if n == 120:
            assert watch.level == "calm"
    assert (watch.level, watch.seen().feature) == ("novel", "confidence")


def test_switched_off_it_counts_and_that_is_all() -> None:
    stream = Stream(Novelty(on=False))
    assert not any(stream.sees(FAULTY[:400]))
    seen = stream.watch.seen()
    assert (seen.level, seen.audit_share, seen.looked) == ("calm", PLAIN, 100)


def test_an_input_with_nothing_in_it_is_not_novel() -> None:
    stream = Stream()
    black = np.zeros((8, 8), np.uint8)
    assert not any(stream.sees([black] * 400))
    assert (stream.watch.level, stream.watch.seen().missing) == ("calm", 100)


def test_without_a_rare_bin_or_a_score_no_input_is_novel() -> None:
    watch = NoveltyWatch(Sketching(()), Novelty(), Budget(), PLAIN, 0.0)
    for n, image in enumerate(FAULTY[:300]):
        assert not (watch.said(0, 0.5) and watch.look(image, float(n)))
    assert (watch.level, watch.audit_share) == ("calm", PLAIN)


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        (Budget(samples_per_s=1), 0.2),
        (Budget(samples_per_s=0.11), 0.1),  # of one sample a second
        (Budget(bytes_per_s=64 * 0.11), 0.1),  # of 64 bytes each
        (Budget(samples_per_s=0.001), PLAIN),
    ],
)
def test_raised_audits_fit_the_budget(budget: Budget, share: float) -> None:
    stream = Stream(budget=budget)
    stream.sees(FAULTY[:200])
    assert stream.watch.level == "novel"
    assert stream.watch.audit_share == pytest.approx(share)


def test_audits_raised_for_too_long_fall_back_and_it_says_so() -> None:
    stream = Stream(Novelty(raised_s_max=300.0))
    stream.sees(FAULTY[:300])
    assert (stream.watch.audit_share, stream.watch.trouble) == (0.2, "")
    stream.sees(FAULTY[300:400])
    assert (stream.watch.level, stream.watch.audit_share) == ("novel", PLAIN)
    assert "unlike the reference for 300 s" in stream.watch.trouble
    assert all(stream.sees(FAULTY[400:500])), "novel inputs go to the cloud all the same"


def test_of_samples_that_come_all_at_once_a_budget_has_room_for_none() -> None:
    watch = Stream(budget=Budget(samples_per_s=5)).watch
    for image in FAULTY[:300]:
        if watch.said(0, 0.5):
            watch.look(image, 7.0)
    assert (watch.level, watch.audit_share) == ("novel", PLAIN)


def test_scores_out_of_order_are_refused() -> None:
    with pytest.raises(ValidationError, match="watchful_score must be below novel_score"):
        Novelty(watchful_score=1.5, novel_score=1.5)


def test_other_settings_hold_from_the_next_sample_on() -> None:
    stream = Stream()
    stream.sees(FAULTY[:200])
    watch = stream.watch
    watch.retune(Novelty(audit_share=0.5), Budget(), 0.3, 200.0)
    assert (watch.level, watch.audit_share) == ("novel", 0.3), "the spell keeps its own share"
    watch.retune(Novelty(on=False), Budget(), 0.02, 200.0)
    assert (watch.level, watch.audit_share) == ("calm", 0.02)
    watch.retune(Novelty(audit_share=0.5), Budget(), 0.02, 200.0)
    assert watch.sketching.looked > 0
    stream.sees(FAULTY[:200])
    assert watch.audit_share == 0.5
