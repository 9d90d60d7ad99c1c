"""Which caches there are and how much they may hold."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shared.config import Positive, Section

PolicyName = Literal["lru", "lfu", "arc"]


class CacheSettings(Section):
    """What any cache may hold. Both bounds hold at once: an entry takes up the greater of its share
    of the entries and its share of the bytes.
    """

    policy: Literal["off", "lru", "lfu", "arc"] = "off"
    """Which entry makes room for another. `arc` keeps what comes again when a scan passes through,
    at the cost of `lru` and the keys of as many entries again; `lfu` never forgets what was popular
    once. Off: where no input comes twice, a cache is 6 us a request for nothing, and how fast an
    answer comes tells one caller what another has asked."""
    entries_max: Annotated[int, Field(gt=0, le=10_000_000)] = 10_000
    """Row sets kept. Each costs about 0.8 KB beside its numbers, which `bytes_max` counts too."""
    bytes_max: Annotated[int, Field(gt=0, le=2**40)] = 64 * 1024**2
    """Bytes kept. Fits a small server beside its models."""
    rows_max: Annotated[int, Field(gt=0, le=1024)] = 8
    """Larger row sets pass by: they are batches of somebody's own, which rarely come twice whole."""
    input_bytes_max: Annotated[int, Field(gt=0, le=2**24)] = 256 * 1024
    """Larger inputs pass by: hashing one holds the event loop for 1 us a KB. 224 x 224 pixels of
    three bytes fit."""


class ResultCacheSettings(CacheSettings):
    """Answers by the content of the rows, the model and its version."""

    fresh_s: Positive = 60.0
    """How long an answer serves as if computed now, in seconds. A model says the same to the same
    rows, so this bounds only how long an answer that was wrong once (a faulty device) stays."""
    stale_s: Positive = 3600.0
    """How long it serves when the model cannot, in seconds from when it was computed."""

    @model_validator(mode="after")
    def _stale_is_longer(self) -> Self:
        if self.stale_s < self.fresh_s:
            raise ValueError(f"stale_s {self.stale_s:g} is below fresh_s {self.fresh_s:g}")
        return self


class FeatureCacheSettings(CacheSettings):
    """What a backbone made of its input, for the heads that share it. A cut model without this
    would run its backbone once a head, so it is on; features do not age.
    """

    policy: Literal["off", "lru", "lfu", "arc"] = "lru"
    """Heads ask for one input within seconds of each other: the latest are the ones to keep."""
