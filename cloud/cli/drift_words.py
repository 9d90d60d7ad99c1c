"""Drift as people read it. Pure."""

from typing import Final

from cloud.cli.rollout_words import percent
from cloud.monitoring.drift.documents import Accuracy, Alarm, FeatureDrift, Scope, ScopeState
from cloud.registry.client.answers import plain

_SMALL: Final = 0.1
_LARGE: Final = 0.25
"""Of a population stability index, as `FeatureDrift.psi` has it."""


def scope_text(scope: Scope) -> str:
    """As `group lyon`, or `fleet`."""
    return "fleet" if scope.kind == "fleet" else f"{scope.kind} {scope.name}"


def how_far(psi: float) -> str:
    if psi < _SMALL:
        return "as it was"
    return "drifts" if psi < _LARGE else "far off"


def worst(state: ScopeState) -> FeatureDrift | None:
    return max(state.features, key=lambda one: one.psi, default=None)


def worst_text(state: ScopeState) -> str:
    """As `input_low 0.41, far off`."""
    found = worst(state)
    return "" if found is None else f"{found.feature} {found.psi:.2f}, {how_far(found.psi)}"


def accuracy_text(found: Accuracy | None) -> str:
    """As `88.1% [85.2, 90.6] of 91%`."""
    if found is None:
        return ""
    low, high = f"{found.low * 100:.1f}", f"{found.high * 100:.1f}"
    text = f"{found.estimate * 100:.1f}% [{low}, {high}]"
    return text if found.expected is None else f"{text}, promised {percent(found.expected)}"


def alarm_line(alarm: Alarm) -> str:
    """What is wrong, and where it comes from."""
    scope = alarm.scope
    return plain(f"{scope_text(scope)}, {scope.model} {scope.version}: {alarm.words}")


def devices_text(alarm: Alarm) -> str:
    """The first of them, and how many more."""
    shown = ", ".join(alarm.devices[:10])
    more = max(alarm.devices_count, len(alarm.devices)) - len(alarm.devices[:10])
    return f"{shown} and {more} more" if more > 0 else shown
