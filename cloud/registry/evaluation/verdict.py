"""From figures to passed or failed, each reason in words. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cloud.registry.documents import RuleResult
from cloud.registry.evaluation.figures import REFERENCE, Measured, Pair
from cloud.registry.evaluation.metric_names import METRICS
from cloud.registry.evaluation.rules import NoCurrent, Rule, judge

_WHY_MAX = 2000
_RESULTS_CHARACTERS_MAX = 80_000  # all go into one entry of the log, which has 256 KiB
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")  # what the log does not take


@dataclass(frozen=True, slots=True)
class Current:
    """The current release: measured against each variant, or nothing to measure, or it could not be."""

    measured: Mapping[str, Measured] = field(default_factory=dict)
    nothing: NoCurrent | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    state: Literal["passed", "failed"]
    why: str
    results: tuple[RuleResult, ...]


def decide(
    rule: Rule,
    engines: Sequence[str],
    measured: Sequence[Measured],
    current: Current,
    pairs: Sequence[Pair],
) -> Verdict:
    """`measured` are the variants of the gate's engines; each must run and hold the rules."""
    has = {one.variant.split("/")[0] for one in measured}
    results = [
        RuleResult(
            rule=f"runs on {engine}", variant=engine, holds=False,
            why=f"the bundle has no variant for {engine}; add one or change the gate",
        )
        for engine in engines
        if engine not in has
    ]  # fmt: skip
    for one in measured:
        results += _of_variant(rule, one, current, pairs)
    return _summed_up(tuple(results))


def _of_variant(
    rule: Rule, one: Measured, current: Current, pairs: Sequence[Pair]
) -> list[RuleResult]:
    results = [_runs(one)]
    if one.broke:
        return results
    results += [_is_finite(one), *_keeps_tolerance(one, pairs)]
    figures, missing = _of_current(one, current)
    judged = judge(
        rule,
        one.metrics,
        figures,
        variant=one.variant,
        missing=one.missing,
        current_missing=missing,
    )
    return [*results, *judged.results]


def _runs(one: Measured) -> RuleResult:
    return RuleResult(
        rule=f"runs on {one.variant.split('/', maxsplit=1)[0]}",
        variant=one.variant,
        holds=not one.broke,
        why=plain(one.broke) or "it was measured to the end",
    )


def _is_finite(one: Measured) -> RuleResult:
    bad = [found.name for found in one.robustness.boundary if not found.finite]
    return RuleResult(
        rule="finite answers to boundary values",
        variant=one.variant,
        holds=not bad,
        why=f"NaN or infinity for {', '.join(bad)}" if bad else "all are finite",
    )


def _keeps_tolerance(one: Measured, pairs: Sequence[Pair]) -> list[RuleResult]:
    """As every device checks before it takes a variant: without it none would run it."""
    return [
        RuleResult(
            rule="golden samples within the bundle's tolerance",
            variant=one.variant,
            holds=pair.within,
            why=f"same winner as the fp32 reference on {pair.agreement:.1%}, largest difference "
            + ("not finite" if pair.difference_max is None else f"{pair.difference_max:.4g}"),
        )
        for pair in pairs
        if (pair.variant, pair.other) == (one.variant, REFERENCE)
    ]


def _of_current(
    one: Measured, current: Current
) -> tuple[Mapping[str, float] | NoCurrent, Mapping[str, str]]:
    """Figures from other hardware than the candidate's are none."""
    if current.nothing is not None:
        return current.nothing, {}
    beside = current.measured.get(one.variant)
    if beside is None:
        return {}, dict.fromkeys(METRICS, current.why_not or "it was not measured")
    if beside.hardware != one.hardware:
        why = f"it was measured on other hardware ({beside.hardware}), which does not count"
        return {}, dict.fromkeys(METRICS, why)
    return beside.metrics, beside.missing


def _summed_up(results: Sequence[RuleResult]) -> Verdict:
    failing = [result for result in results if not result.holds]
    kept = _kept(results)
    if failing:
        words = "; ".join(f"{r.variant}: {r.rule}: {r.why}" for r in failing)
        return Verdict("failed", plain(words), kept)
    variants = ", ".join(sorted({result.variant for result in results}))
    return Verdict("passed", plain(f"all {len(results)} rules hold on {variants}"), kept)


def _kept(results: Sequence[RuleResult]) -> tuple[RuleResult, ...]:
    """What fits, the failing ones before the others, in their order."""
    plain_ones = [one.model_copy(update={"why": plain(one.why)}) for one in results]
    room = _RESULTS_CHARACTERS_MAX
    kept: set[int] = set()
    for at in sorted(range(len(plain_ones)), key=lambda at: plain_ones[at].holds):
        room -= len(plain_ones[at].rule) + len(plain_ones[at].why)
        if room < 0:
            break
        kept.add(at)
    found = [plain_ones[at] for at in sorted(kept)]
    if left := [one for at, one in enumerate(plain_ones) if at not in kept]:
        holds = all(one.holds for one in left)
        rule = f"and {len(left)} more"
        found.append(RuleResult(rule=rule, variant="", holds=holds, why="no room for them here"))
    return tuple(found)


def plain(text: str) -> str:
    """One line, as the log takes it: an engine may have said anything."""
    line = _ODD.sub(" ", text)
    return line if len(line) <= _WHY_MAX else f"{line[: _WHY_MAX - 3]}..."
