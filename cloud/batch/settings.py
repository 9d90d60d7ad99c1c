"""Near-line jobs: what to look through every few minutes, with which model, and where to answer."""

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from cloud.batch.job import Layout
from shared.bundle.manifest import Name, Version
from shared.config import Count, Section

_TOPIC = re.compile(r"[^\0#+$][^\0]{0,199}|[#+][^\0]{0,199}")


class NearLineJob(Section):
    """One folder, store or topic."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    """For people, metrics and file names; no two jobs may share one."""
    folder: Path | None = None
    """Images with all that is below it. Give this, `url` or `topic`."""
    url: Annotated[str, Field(max_length=500)] | None = None
    """`s3://bucket/prefix`; its credentials come from the environment."""
    topic: Annotated[str, Field(max_length=200)] | None = None
    """An MQTT topic filter. A message's payload is what a file would hold."""
    out: Path
    """Folder of the answers. Only this job may write there."""
    model: Name
    """By the name of its bundle; the one that serves answers."""
    version: Version | None = None
    """None: whichever version serves."""
    every_minutes: Annotated[float, Field(gt=0, le=1440)] = 15.0
    """From one window's begin to the next one's; counted from midnight UTC, where that divides."""
    window_minutes: Annotated[float, Field(gt=0, le=1440)] | None = None
    """How long a window is; what is not done then waits for the next. None: until the next."""
    batch_rows: Annotated[int, Field(ge=1, le=1024)] = 16
    """Rows asked for at once. The plateau of throughput starts there, and an interactive request
    waits for one batch at most."""
    part_rows: Annotated[int, Field(ge=1, le=1_000_000)] = 4096
    """Rows in each file of answers at most: half a megabyte of lines."""
    layout: Layout = "jsonl"
    """Of the answers: JSON lines, which anything reads, or arrays for numpy."""
    probabilities: bool = False
    """Whether each row has all of them."""
    behind_max: Count = 3
    """Windows in a row that leave work undone before the status raises an alert. One may be a
    burst; three are a trend."""
    buffer_bytes_max: Count = 1024**3
    """Of a topic's messages on disk between windows. When full, the broker keeps what comes."""
    buffer_messages_max: Count = 100_000
    """The same, by number."""
    message_bytes_max: Annotated[int, Field(gt=0, le=64 * 1024**2)] = 4 * 1024**2
    """Of one message; a larger one is dropped and counted. An image of 2,000 by 2,000 pixels."""

    @property
    def every_s(self) -> float:
        return self.every_minutes * 60

    @property
    def window_s(self) -> float:
        return min(self.window_minutes or self.every_minutes, self.every_minutes) * 60

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(each is not None for each in (self.folder, self.url, self.topic)) != 1:
            raise ValueError(f"{self.name}: give one of folder, url and topic")
        if self.topic is not None and not _TOPIC.fullmatch(self.topic):
            raise ValueError(f"{self.name}: topic {self.topic[:40]!r} is no MQTT topic filter")
        return self


class BatchSettings(Section):
    near_line: tuple[NearLineJob, ...] = Field(default=(), max_length=32)
    """None by default: images come over HTTP and MQTT, and offline batches run by command."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for what in ("name", "out"):
            values = [getattr(job, what) for job in self.near_line]
            if len(set(values)) != len(values):
                raise ValueError(f"near_line: two jobs have the same {what}")
        return self
