"""What to do about an alarm: a sentence that says what is wrong, one that says what to do, and a
command to paste. Pure.
"""

import shlex
from collections.abc import Sequence
from typing import Final, assert_never

from cloud.monitoring.drift.documents import Accuracy, Cause, FeatureDrift, Kind, Scope

_SHOWN: Final = 3
_WHAT: Final = {
    Kind.INPUT: "inputs are not spread as in the bundle's reference",
    Kind.ANSWER: "answers are not spread as in the bundle's reference, though inputs are",
    Kind.MISSING: "inputs have nothing in them",
    Kind.STALE: "devices have said nothing for too long",
    Kind.ACCURACY: "fewer answers are right than the bundle promises",
}
_DO: Final = {
    Cause.SENSOR: (
        "One device alone: look at its newest samples, clean or replace its sensor, and keep it out "
        "of training until then."
    ),
    Cause.MODEL: (
        "It came with the version, and the same devices were well with the one before: take that "
        "rollout back, then look at how the version was trained."
    ),
    Cause.SCENE: (
        "The group changed together: look at samples, say what some of them show, and let the "
        "training loop make a version that knows them."
    ),
    Cause.UNKNOWN: "Look at the newest samples of the devices named, and at what changed there.",
}
_DO_STALE: Final = (
    "See whether the site has lost its network or its power; a single device may have to be "
    "restarted, or removed from the fleet."
)
_DO_MISSING: Final = "See whether lenses are covered, cables loose, or sources empty."


def words(
    kind: Kind, scope: Scope, features: Sequence[FeatureDrift] = (),
    accuracy: Accuracy | None = None, devices: int = 0, samples: int = 0, missing: float = 0.0,
) -> str:  # fmt: skip
    """One sentence."""
    who = {"device": f"device {scope.name}", "group": f"group {scope.name}", "fleet": "the fleet"}
    text = f"{_capital(who[scope.kind])}, {scope.model} {scope.version}: {_WHAT[kind]}"
    match kind:
        case Kind.INPUT | Kind.ANSWER:
            shown = [f"{one.feature} PSI {one.psi:.2f}" for one in features[:_SHOWN]]
            return f"{text}: {', '.join(shown)} over {samples} samples{_of(scope, devices)}"
        case Kind.MISSING:
            return f"{text}: {missing:.0%} of {samples} samples{_of(scope, devices)}"
        case Kind.STALE:
            return f"{text}: {devices} of its devices"
        case Kind.ACCURACY:
            if accuracy is None:
                return text
            promised = "" if accuracy.expected is None else f", {accuracy.expected:.1%} promised"
            return (
                f"{text}: {accuracy.estimate:.1%} ({accuracy.low:.1%} to {accuracy.high:.1%}) by "
                f"{accuracy.audits} audits{promised}"
            )
        case _:
            assert_never(kind)


def advice(kind: Kind, cause: Cause) -> str:
    match kind:
        case Kind.STALE:
            return _DO_STALE
        case Kind.MISSING:
            return f"{_DO_MISSING} {_DO[cause]}"
        case Kind.INPUT | Kind.ANSWER | Kind.ACCURACY:
            return _DO[cause]
        case _:
            assert_never(kind)


def command(
    kind: Kind, cause: Cause, scope: Scope, devices: Sequence[str] = (), rollout: str | None = None
) -> str:
    """Ready to be pasted into a shell. `rollout`: which brought the version, where it is known."""
    device = scope.name if scope.kind == "device" else next(iter(devices), "")
    if kind is Kind.STALE:
        if len(devices) == 1:
            return f"hybridge device get {shlex.quote(device)}"
        return _list(scope)
    if cause is Cause.SENSOR and device:
        return f"hybridge device quarantine {shlex.quote(device)} -m {_why(kind)}"
    if cause is Cause.MODEL:
        if rollout is not None:
            return f"hybridge rollout undo {rollout} -m {_why(kind)}"
        return "hybridge rollout list"
    if cause is Cause.SCENE and kind in {Kind.INPUT, Kind.ANSWER, Kind.ACCURACY}:
        return f"hybridge loop begin {scope.model} -m {_why(kind)}"
    if device:
        return f"hybridge device get {shlex.quote(device)}"
    return _list(scope)


def _list(scope: Scope) -> str:
    return "hybridge device list" if scope.kind == "fleet" else f"hybridge group get {scope.name}"


def _why(kind: Kind) -> str:
    return f"'drift: {kind.value}'"


def _of(scope: Scope, devices: int) -> str:
    return f" of {devices} devices" if scope.kind != "device" and devices else ""


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
