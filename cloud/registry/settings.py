"""Settings of the registry's own work, beside those of its parts."""

from typing import Annotated

from pydantic import Field

from shared.config import Positive, Section


class Upkeep(Section):
    """What it does by the clock. Zero hours: never, by itself."""

    collect_hours: Annotated[float, Field(ge=0)] = 24.0
    """Between two collections of garbage. What is younger than `artifacts.grace_hours` stays."""
    scrub_hours: Annotated[float, Field(ge=0)] = 168.0
    """Between two readings of every artifact, to find those that lost a bit. A week: a disk's
    unrecoverable errors are some a year."""
    trust_look_s: Positive = 60.0
    """How often is looked whether the timestamp must be signed anew, which it is long before its
    end; also how soon trust metadata that a crash left half published is made whole."""


class Evaluators(Section):
    """The processes that evaluate; what they measure, and how, is `evaluation`."""

    backoff_s_min: Positive = 1.0
    """Pause before one that died is started again; doubles with every death in a row."""
    backoff_s_max: Positive = 300.0
    """Longest such pause. An evaluator that cannot start costs a process each five minutes."""
    stop_s_max: Positive = 10.0
    """From SIGTERM until it is killed. What it was at is taken up by another when its lease is
    over."""
