"""The `updates` part of the agent's settings."""

from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from edge.updates.trial import Terms
from shared.bundle.manifest import Share, Version
from shared.config import Count, Positive
from shared.day_span import DaySpan, parse_span
from shared.errors import Malformed
from shared.fetching.settings import Server

_MIB = 1024 * 1024


class UpdateSettings(Server):
    """Where new versions come from, when they may come, and what they must show."""

    root: Path
    """The registry's root of trust (`1.root.json`), put on the device when it is set up. Nothing
    that is fetched can replace it but by its own signatures."""

    pin: Version | None = None
    """Run this version and no other; None takes the newest release."""

    poll_s: Positive = 900.0
    """Seconds between two looks, give or take a tenth; a quarter of an hour is soon enough for a
    new model, and 1,000 devices are one look a second."""

    released_s_max: Positive = 900.0
    """Seconds that a version which the fleet asks for may be missing in the signed metadata before
    this device reports a failure; a replica is seldom a quarter of an hour behind its home. It is
    looked for on and on all the same."""

    backoff_s_min: Positive = 1.0
    """Seconds; the bound of the first pause after a failure, before jitter."""

    backoff_s_max: Positive = 300.0
    """Seconds; the longest."""

    bytes_per_s: Annotated[float, Field(ge=1024)] | None = None
    """Bytes a second that a download may take; None: as fast as it comes."""

    windows: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    """Local times at which downloads may run, as "01:00-05:00", over midnight too; none: always.
    Looking for releases, probing and swapping happen at any time."""

    time_zone: str | None = None
    """Of the windows, as "Europe/Berlin"; None is the system's."""

    free_bytes_min: Annotated[int, Field(ge=0)] = 32 * _MIB
    """Bytes that must stay free on the state directory's disk, for the outbox and the system."""

    probe_s_max: Positive = 900.0
    """Seconds for the probe; TensorRT compiles for minutes, once."""

    latency_ms_max: Positive = 25.0
    """Median latency in ms that a candidate may have here; half of the default fast deadline."""

    slower_max: Annotated[float, Field(ge=1)] = 3.0
    """How many times as slow as the active model it may be, measured in turn."""

    trial_samples: Count = 200
    """Live samples after which a trial ends; 200 tell 80% agreement from 90%."""

    trial_samples_min: Count = 20
    """Fewer by the deadline say nothing: `few_samples` decides."""

    trial_s_max: Positive = 3600.0
    """Seconds after which a trial ends."""

    few_samples: Literal["accept", "reject"] = "accept"
    """What follows too few live samples: "accept" on the golden samples alone (a quiet device
    would otherwise never update), or "reject"."""

    agreement_min: Share = 0.8
    """Share of live samples that the active model is sure of on which it must answer alike; a better
    model differs where the old one erred, a broken one nearly everywhere. Where the active model is
    sure of fewer than `trial_samples_min`, as under a shift that it never saw, nothing is held
    against it here: golden samples and the fleet's evidence decide."""

    trial_p95_ms_max: Positive = 50.0
    """95th percentile of its latency on live samples in ms; the default fast deadline."""

    trial_cpu_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of one core that a trial may use; samples beyond it are skipped and counted."""

    proven_s: Positive = 60.0
    """Seconds that a new version must run in one process; an agent that dies sooner three times in
    a row goes back to the version before."""

    @field_validator("windows")
    @classmethod
    def _are_spans(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            for text in texts:
                parse_span(text)
        except Malformed as error:
            raise ValueError(str(error)) from error
        return texts

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.time_zone is not None:
            try:
                ZoneInfo(self.time_zone)
            except (KeyError, OSError, ValueError) as error:
                raise ValueError(
                    f"time_zone: {self.time_zone[:60]!r} is not known here; name one as "
                    "'Europe/Berlin' (package tzdata)"
                ) from error
        if self.trial_samples_min > self.trial_samples:
            raise ValueError("trial_samples_min is above trial_samples; no trial could pass")
        return self

    def spans(self) -> tuple[DaySpan, ...]:
        return tuple(parse_span(text) for text in self.windows)

    def zone(self) -> ZoneInfo | None:
        return None if self.time_zone is None else ZoneInfo(self.time_zone)

    def trial_terms(self) -> Terms:
        return Terms(
            samples=self.trial_samples, samples_min=self.trial_samples_min, s_max=self.trial_s_max,
            agreement_min=self.agreement_min, p95_ms_max=self.trial_p95_ms_max,
            few_samples=self.few_samples,
        )  # fmt: skip

    def rooted(self, root: Path) -> Self:
        """With relative paths made relative to `root`."""
        return super().rooted(root).model_copy(update={"root": root / self.root})
