"""Recoveries as Markdown, and what of them misses a target. Pure but for `write`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from shared.errors import Malformed
from simulations.drift_recovery.recovery import Recovery

REGAINED_MIN: Final = 0.55
REGAINED_MEAN: Final = 0.80
CLEAN_LOSS_MAX: Final = 0.007
CPU_S_MAX: Final = 40.0
HEAD: Final = (
    "| shift | seed | sent | labels right | before | after | regained | clean, test | "
    "clean, calibration | escalated | CPU |\n|---|---|---|---|---|---|---|---|---|---|---|"
)
BEGIN: Final = "<!-- drift_recovery: begin -->"
END: Final = "<!-- drift_recovery: end -->"


def row(one: Recovery) -> str:
    name = f"{one.kind}, {one.trial}" if one.trial else one.kind
    return (
        f"| {name} | {one.seed} | {one.sent:,} | {one.teacher:.1%} | {one.before:.1%} | "
        f"{one.after:.1%} | {one.regained:.0%} | {one.clean_before:.2%} -> {one.clean_after:.2%} | "
        f"{-100 * one.calibration_loss:+.2f} | "
        f"{one.escalated_before:.0%} -> {one.escalated_after:.0%} | {one.cpu_s:.0f} s |"
    )


def mean_regained(found: Sequence[Recovery]) -> float:
    return float(np.mean([one.regained for one in found]))


def missed(found: Sequence[Recovery]) -> list[str]:
    """In words; empty when all is well."""
    wrong = list[str]()
    for one in found:
        name = f"{one.kind}, seed {one.seed}"
        if one.regained < REGAINED_MIN:
            wrong.append(f"{name}: regained {one.regained:.1%}, at least {REGAINED_MIN:.0%}")
        for what, loss in (("test", one.clean_loss), ("calibration", one.calibration_loss)):
            if loss > CLEAN_LOSS_MAX:
                wrong.append(
                    f"{name}: clean lost {loss:.2%} of the {what} images, at most {CLEAN_LOSS_MAX:.1%}"
                )
        if one.cpu_s > CPU_S_MAX:
            wrong.append(f"{name}: {one.cpu_s:.0f} s of CPU, at most {CPU_S_MAX:.0f} s")
    if (mean := mean_regained(found)) < REGAINED_MEAN:
        wrong.append(f"mean regained {mean:.1%}, at least {REGAINED_MEAN:.0%}")
    return wrong


def write(page: Path, lines: Sequence[str]) -> None:
    """Replace what stands between the markers. Raises `Malformed` when the page has none."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Malformed(f"{page}: lacks the lines {BEGIN} and {END}, between which figures go")
    body = "\n".join(lines)
    page.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")
