"""Runs side by side: parameters that differ, figures, which one is best. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cloud.training.documents import Job, Run

_LESS_IS_BETTER: Final = frozenset(
    {"loss", "error", "ece", "ms", "bytes", "s", "escalated", "spoilt"}
)
_MORE_IS_BETTER: Final = frozenset({"accuracy", "agreement", "f1", "gain", "gained"})
_OF_ANOTHER: Final = "parent"  # of the bundle before: no run is better for it


@dataclass(frozen=True, slots=True)
class Compared:
    """One member of several runs."""

    name: str
    values: tuple[object, ...]
    """None: that run has none."""
    best: tuple[bool, ...] = ()
    """Empty where nobody can say what is better."""


@dataclass(frozen=True, slots=True)
class Comparison:
    jobs: tuple[str, ...]
    parameters: tuple[Compared, ...]
    """Those that differ."""
    figures: tuple[Compared, ...]


def compare(jobs: Sequence[Job], runs: Sequence[Run], metrics: Sequence[str] = ()) -> Comparison:
    """`metrics`: only those figures; none named: all."""
    settings = [_settings(job, run) for job, run in zip(jobs, runs, strict=True)]
    parameters = [
        Compared(name, values)
        for name, values in _side_by_side(settings)
        if len({json.dumps(value, sort_keys=True, default=str) for value in values}) > 1
    ]
    figures = [
        Compared(name, values, _best(name, values))
        for name, values in _side_by_side([run.figures for run in runs])
        if not metrics or name in metrics
    ]
    return Comparison(tuple(job.id for job in jobs), tuple(parameters), tuple(figures))


def is_better(name: str) -> int:
    """1: more is; -1: less is; 0: the name does not say. Its last word that says anything counts."""
    words = name.replace(".", "_").split("_")
    if _OF_ANOTHER in words:
        return 0
    for word in reversed(words):
        if word in _LESS_IS_BETTER:
            return -1
        if word in _MORE_IS_BETTER:
            return 1
    return 0


def _settings(job: Job, run: Run) -> Mapping[str, object]:
    """What may have made the difference, one level deep: `fitting.epochs`."""
    return {
        "data_set": run.data_set, **_flat(job.spec.recipe.model_dump(mode="json")),
        **_flat(run.parameters), "code_version": run.code_version, "machine": run.machine,
    }  # fmt: skip


def _flat(tree: Mapping[str, object], above: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def _side_by_side(
    trees: Sequence[Mapping[str, object]],
) -> list[tuple[str, tuple[object, ...]]]:
    names = dict.fromkeys(name for tree in trees for name in tree)
    return [(name, tuple(tree.get(name) for tree in trees)) for name in names]


def _best(name: str, values: Sequence[object]) -> tuple[bool, ...]:
    way = is_better(name)
    known = [float(value) for value in values if isinstance(value, int | float)]
    if not way or len(known) < 2 or min(known) == max(known):
        return ()
    top = max(known) if way > 0 else min(known)
    return tuple(isinstance(value, int | float) and float(value) == top for value in values)
