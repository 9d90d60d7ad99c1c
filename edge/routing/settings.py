"""The `routing` part of the agent's settings."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shared.config import Positive, Section


class Budget(Section):
    """What the uplink may cost; the least confident samples go first when it binds."""

    samples_per_s: Positive | None = None
    """Escalations a second; no limit by default, because the threshold already limits them."""

    bytes_per_s: Positive | None = None
    """MQTT payload bytes a second; no limit by default. Set it on a metered link."""

    burst_s: Positive = 2.0
    """Seconds of unused budget that may be spent at once; two ride out a flurry of events."""


class Novelty(Section):
    """Inputs unlike those that the model was calibrated on: it may be wrong and sure of them.

    A score says how far the newest inputs are from the bundle's reference: the population stability
    index, less what chance gives. Over 0.25 is usually called large; but a site that sees some kinds
    of things only is that far from the reference for ever.
    """

    on: bool = True
    """Off: inputs are counted for the fleet, and change nothing here."""

    window_looks: Annotated[int, Field(ge=32, le=1024, multiple_of=4)] = 64
    """Inputs that are held against the reference together; of fewer, chance makes half of the score."""

    watchful_score: Positive = 0.75
    """From it on each input is looked at instead of every fourth; a site that sees five of ten
    classes stays below."""

    novel_score: Positive = 1.5
    """From it on audits are raised. Six shifts of a camera reach 1.5 to 15, sites with three of ten
    classes 1 to 1.9."""

    audit_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of confident samples sent while inputs are novel; 20% show within 50 samples what the edge
    is sure and wrong of. Never more than the budget has room for."""

    calm_looks: Annotated[int, Field(ge=1, le=100_000)] = 128
    """Inputs in a row with a score below `watchful_score` until all is as before; two windows."""

    raised_s_max: Positive = 86_400.0
    """How long audits stay raised, in s; a device that is novel for more than a day needs another
    model, not more samples."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.watchful_score >= self.novel_score:
            raise ValueError("watchful_score must be below novel_score")
        return self


class Routing(Section):
    """Which samples the cloud is asked about."""

    threshold: str | None = None
    """A name in the bundle's threshold table; the bundle's own default when absent."""

    confidence_min: Annotated[float, Field(ge=0, le=2)] | None = None
    """Escalate below this instead of a named threshold; no guarantee comes with it. Over 1: all."""

    audit_share: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of confident samples sent all the same; 1% bounds the error on accuracy to about two
    points within 10,000 samples, and is the only way to see what the edge is sure and wrong of."""

    budget: Budget = Budget()
    """No limits by default."""

    novelty: Novelty = Novelty()
    """On by default: confidence alone misses the worst faults of a camera."""

    payload: Literal["raw", "zstd", "grey4"] | None = None
    """How samples travel; what the bundle was measured with when absent. zstd loses nothing."""

    fusion: bool = True
    """Pool both answers with the bundle's weight; the cloud's answer alone when off."""

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.threshold is not None and self.confidence_min is not None:
            raise ValueError("set threshold or confidence_min, not both")
        return self
