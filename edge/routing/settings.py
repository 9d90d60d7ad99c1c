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

    payload: Literal["raw", "zstd", "grey4"] | None = None
    """How samples travel; what the bundle was measured with when absent. zstd loses nothing."""

    fusion: bool = True
    """Pool both answers with the bundle's weight; the cloud's answer alone when off."""

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.threshold is not None and self.confidence_min is not None:
            raise ValueError("set threshold or confidence_min, not both")
        return self
