"""What lets a cycle through, beside the registry's own gate. Pure.

Both gates are paired: two models answered the same samples, so only those count on which one was
right and the other wrong (McNemar 1947), by the exact binomial test. A figure that is missing or no
number passes no gate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cloud.learning.documents import Acceptance, Finding, Teacher
from cloud.learning.loop.events import Paired
from cloud.training import figure_names as names

LOOKS_MAX: Final = 4
"""At the teacher: with so many labels as are asked for, and with twice as many each time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`open`: not enough is known; `labels_wanted` by people would be enough for another look."""

    says: Literal["holds", "refused", "open"]
    findings: tuple[Finding, ...]
    words: str
    labels_wanted: int = 0


def p_by_chance(first: int, second: int) -> float:
    """Probability of `first` or more of `first + second` when both are as likely: one-sided."""
    count = first + second
    if count == 0:
        return 1.0
    if count > 20_000:  # the normal one is as good
        z = (first - second - 1) / math.sqrt(count)
        return 0.5 * math.erfc(z / math.sqrt(2))
    all_ways = math.lgamma(count + 1) - count * math.log(2)
    return min(1.0, math.fsum(
        math.exp(all_ways - math.lgamma(k + 1) - math.lgamma(count - k + 1))
        for k in range(first, count + 1)
    ))  # fmt: skip


def teacher_gate(teacher: Teacher, confidence: float, people: Paired, looks: int) -> Verdict:
    """Whether the cloud (first) is right more often than the edge (second), as people see it.

    `looks`: at this teacher before. Each further one must be surer by half, so that all of them
    together are wrong with a probability of at most 1 - `confidence` about a teacher that is no
    better than the edge.
    """
    wanted = teacher.labelled_min * 2**looks
    if teacher.labelled_min == 0:
        found = _finding(
            "teacher", holds=True, words="nobody was asked what the cloud's labels are worth"
        )
        return Verdict("holds", (found,), found.words)
    if people.count < wanted:
        return Verdict("open", (), _labels_missing(wanted - people.count), wanted)
    p, p_max = p_by_chance(people.first, people.second), (1 - confidence) / 2 ** (looks + 1)
    gain = people.gain
    words = (
        f"of {people.count} samples that people labelled the cloud alone is right on {people.first}, "
        f"the edge alone on {people.second}"
    )
    is_better = gain >= teacher.margin and gain > 0
    findings = (
        _finding("teacher_gain", is_better, words, gain, teacher.margin),
        _finding("teacher_chance", p <= p_max, "probability of that by chance", p, p_max),
    )
    if not is_better:
        return Verdict("refused", findings, f"the teacher is no better than the edge: {words}")
    if p <= p_max:
        return Verdict("holds", findings, words)
    if looks + 1 >= LOOKS_MAX:
        return Verdict("refused", findings, f"the teacher is not surely better: {words}")
    return Verdict(
        "open", findings, f"{words}, which may be chance. {_labels_missing(2 * wanted - people.count)}",
        2 * wanted,
    )  # fmt: skip


def acceptance_gate(acceptance: Acceptance, figures: Mapping[str, float]) -> Verdict:
    """Whether the new version (first) may follow its parent (second), by its job's figures."""
    findings = [*_gained(acceptance, figures), _clean(acceptance, figures)]
    findings += _gained_by_people(figures)
    missed = [one for one in findings if not one.holds]
    if not missed:
        return Verdict("holds", tuple(findings), findings[0].words)
    why = "; ".join(_missed(one) for one in missed)
    return Verdict("refused", tuple(findings), f"the new version does not pass: {why}"[:1000])


def paired(figures: Mapping[str, float], by: names.LabelledBy) -> Paired | None:
    """What a job measured on the holdout; None where a figure is missing or makes no sense."""
    found = [
        figures.get(name, math.nan)
        for name in (
            names.holdout_rows(by), names.holdout_accuracy(by), names.holdout_gained(by),
            names.holdout_spoilt(by),
        )
    ]  # fmt: skip
    if not all(math.isfinite(one) for one in found):
        return None
    rows, gained, spoilt = round(found[0]), round(found[2]), round(found[3])
    right = round(found[1] * rows)
    counts = right - gained, gained, spoilt, rows - right - spoilt
    return Paired(*counts) if min(counts) >= 0 else None


def _gained(acceptance: Acceptance, figures: Mapping[str, float]) -> list[Finding]:
    rows = paired(figures, "all")
    if rows is None:
        words = (
            "the job did not measure both versions on the holdout, or its figures are no numbers"
        )
        return [_finding("gain", holds=False, words=words, bound=acceptance.gain_min)]
    p, p_max = p_by_chance(rows.first, rows.second), 1 - acceptance.confidence
    words = _in_words(rows, "by the best label of each")
    return [
        _finding("gain", rows.gain >= acceptance.gain_min, words, rows.gain, acceptance.gain_min),
        _finding("gain_chance", p <= p_max, "probability of that by chance", p, p_max),
    ]


def _gained_by_people(figures: Mapping[str, float]) -> list[Finding]:
    """Nothing where the job says that people labelled none of the holdout."""
    if figures.get(names.holdout_rows("person")) == 0:
        return []
    people = paired(figures, "person")
    if people is None:
        words = (
            "the job did not say how many held out samples people labelled, or did not measure both "
            "versions on those"
        )
        return [_finding("gain_by_people", holds=False, words=words, bound=0.0)]
    words = _in_words(people, "by people's labels")
    return [_finding("gain_by_people", people.gain >= 0, words, people.gain, 0.0)]


def _in_words(rows: Paired, by: str) -> str:
    return (
        f"of {rows.count} held out samples the new version alone is right on {rows.first}, the one "
        f"before alone on {rows.second}, {by}"
    )


def _clean(acceptance: Acceptance, figures: Mapping[str, float]) -> Finding:
    loss = figures.get(names.CLEAN_PARENT, math.nan) - figures.get(names.CLEAN, math.nan)
    words = "right answers lost on the base data's calibration split"
    if not math.isfinite(loss):
        words = f"the job did not measure {names.CLEAN} and its parent's, or they are no numbers"
    return _finding(
        "clean_loss", loss <= acceptance.clean_loss_max, words, loss, acceptance.clean_loss_max
    )


def _finding(
    name: str, holds: bool, words: str, value: float | None = None, bound: float | None = None
) -> Finding:  # fmt: skip
    is_number = value is None or math.isfinite(value)
    return Finding(
        name=name, holds=holds and is_number, value=value if is_number else None, bound=bound,
        words=words,
    )  # fmt: skip


def _missed(one: Finding) -> str:
    value = "no number" if one.value is None else f"{one.value:.4g}"
    bound = math.nan if one.bound is None else one.bound
    return f"{one.name} is {value}, the bound {bound:.4g} ({one.words})"


def _labels_missing(count: int) -> str:
    return f"{count} more labels by a person, of held out samples"
