"""Drift as the API gives it: figures by scope, alarms, an accuracy estimate. Frozen, bounded, no I/O."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from cloud.document import Document
from shared.bundle.manifest import Name, Share, Version

Words = Annotated[str, StringConstraints(max_length=1000)]


class Scope(Document):
    """Whose samples are looked at together."""

    kind: Literal["device", "group", "fleet"]
    name: Annotated[str, StringConstraints(max_length=64)]
    model: Name
    version: Version


class Kind(StrEnum):
    """What an alarm is about."""

    INPUT = "input"
    """Inputs are not spread as in the reference."""
    ANSWER = "answer"
    """Confidence or predicted classes are not, while inputs are."""
    MISSING = "missing"
    """Inputs with nothing in them."""
    STALE = "stale"
    """Devices of it have said nothing for too long."""
    ACCURACY = "accuracy"
    """Audits show fewer right answers than the bundle promises."""


class Cause(StrEnum):
    """Where it comes from, as far as it can be told."""

    SENSOR = "sensor"
    """One device alone."""
    MODEL = "model"
    """It follows a version: the same devices did not drift with the one before."""
    SCENE = "scene"
    """A group together."""
    UNKNOWN = "unknown"


class FeatureDrift(Document):
    """One feature's distance from the reference over the window."""

    feature: Annotated[str, StringConstraints(max_length=32)]
    samples: int
    psi: float
    """Population stability index, less what chance gives with so few samples; under 0.1 is small,
    over 0.25 large (Siddiqi 2006)."""
    ks: float
    """Largest difference of the two distribution functions, at the bins' edges."""
    p: float
    """Of a difference so large by chance."""


class Accuracy(Document):
    """How many of the edge's own answers are right by the cloud's word, from audits and escalations."""

    estimate: Share
    low: Share
    high: Share
    """Bounds of the 95% interval."""
    audits: int
    samples: int
    expected: Share | None = None
    """What the bundle promises, where it says."""


class ScopeState(Document):
    """The newest window of one scope."""

    scope: Scope
    samples: int
    """In the window."""
    features: tuple[FeatureDrift, ...] = ()
    missing_share: Share = 0.0
    novel_share: Share = 0.0
    escalated_share: Share = 0.0
    accuracy: Accuracy | None = None
    devices: int
    """Which gave samples to the window."""
    updated_at: float


class Alarm(Document):
    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")]
    kind: Kind
    scope: Scope
    cause: Cause
    features: tuple[FeatureDrift, ...] = ()
    accuracy: Accuracy | None = None
    devices: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    """The first of those that it is about."""
    devices_count: int = 0
    samples: int = 0
    """How many of the scope's samples it took, from the first that was counted in the window."""
    words: Words
    """What is wrong, in a sentence."""
    runbook: Words
    """What to do about it."""
    command: Annotated[str, StringConstraints(max_length=500)]
    """A command that would do it, ready to be pasted."""
    opened_at: float
    closed_at: float | None = None
    """None: it is on."""
    seen_by: str = ""
    """Who has acknowledged it."""


class DriftState(Document):
    scopes: tuple[ScopeState, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    """Those that are on."""
    next: str | None = None
