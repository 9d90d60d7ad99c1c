"""When a model is left alone, and what is answered in its place."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shared.config import Positive, Section

Label = Annotated[str, Field(min_length=1, max_length=200)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class BreakerSettings(Section):
    """A circuit breaker (Nygard, Release It!, 2007): closed, open, half-open, closed again."""

    window_s: Positive = 10.0
    """Over which failures are counted, in seconds: between half of it and all of it. Long enough
    for `calls_min` at a few requests a second, short enough to notice within a page load."""
    failed_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Opens when so many of the answers in the window are faults. A sample that is to blame itself
    fails alone, so a healthy model stays far below."""
    calls_min: Annotated[int, Field(gt=0, le=1_000_000)] = 10
    """Answers in the window below which nothing is concluded: two failures of three say little."""
    pause_s: Positive = 1.0
    """From open to the first probes, in seconds. A hiccup is over by then; each round of probes
    that fails doubles it."""
    pause_s_max: Positive = 30.0
    """Longest pause, in seconds: how late a model that works again is noticed."""
    probes: Annotated[int, Field(gt=0, le=100)] = 3
    """Requests let through when half-open, at once and in all; every one must be answered."""

    @model_validator(mode="after")
    def _pauses_agree(self) -> Self:
        if self.pause_s_max < self.pause_s:
            raise ValueError(f"pause_s_max {self.pause_s_max:g} is below pause_s {self.pause_s:g}")
        return self


class LabelRule(Section):
    """Always this label, the one that does least harm."""

    kind: Literal["label"]
    label: Label
    """One of the model's."""
    confidence: Annotated[float, Field(gt=0, le=1)]
    """Stated with it; the rest is shared by the others evenly. Above 1 / labels, or it would not
    be the winner."""


class PriorRule(Section):
    """How often each label occurs, whatever the input: an honest shrug."""

    kind: Literal["prior"]
    shares: dict[Label, Share] = Field(min_length=1, max_length=100_000)
    """By label, 1 in sum; labels that are not listed never occur."""

    @model_validator(mode="after")
    def _sums_to_one(self) -> Self:
        if abs(sum(self.shares.values()) - 1) > 1e-3:
            raise ValueError(f"shares: their sum is {sum(self.shares.values()):g}; make it 1")
        return self


class FallbackSettings(Section):
    """What answers when a model does not."""

    on: tuple[Literal["fault", "overload", "deadline"], ...] = ("fault",)
    """Which failures it is for. An overload stays a prompt refusal unless asked otherwise: a client
    that is told when to come again gets a better answer than a stale one."""
    rule: Annotated[LabelRule | PriorRule, Field(discriminator="kind")] | None = None
    """The last resort, after a stale answer. None: the error itself. Only who runs the service
    knows an answer that is better than none."""


class Reliability(Section):
    """Of one model."""

    breaker: BreakerSettings = BreakerSettings()
    fallback: FallbackSettings = FallbackSettings()
