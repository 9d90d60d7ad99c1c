"""The HTTP API's settings, and the bounds of what it takes."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from shared.config import Count, Positive, Section


class CallLimits(Section):
    """Of one inference call, whatever lane it takes."""

    rows_max: Count = 256
    """Rows of one call; more would keep others waiting for too long."""
    json_bytes_max: Annotated[int, Field(gt=0, le=64 * 1024**2)] = 1024 * 1024
    """Of a body's JSON, which takes up to 25 times its size in memory and 20 ms a MiB; one image of
    224 x 224 x 3 as JSON data is 0.6 MB. Binary data is bounded by the body alone."""
    fast_s: Positive = 0.2
    """Deadline of the tier `fast`, seconds: what a control loop waits for."""
    full_s: Positive = 1.0
    """Deadline of the tier `full`: what a person waits for."""
    timeout_s_max: Positive = 60.0
    """A longer `timeout` of a call that waits for its answer is cut down to this."""


class Listening(Section):
    """Of any HTTP API of ours: where it listens, and how long and how many clients may be at it."""

    host: str = "127.0.0.1"
    """This machine only. An address that others reach needs `gateway` to ask who they are."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """0 picks a free one; the ready line names it."""
    body_s_max: Positive = 10.0
    """Seconds for a body to arrive; a mobile link needs seconds."""
    head_s_max: Positive = 5.0
    """Seconds for a request's head to arrive, from its first byte."""
    idle_s_max: Positive = 75.0
    """Seconds without a request until a connection is closed; longer than the 60 s for which
    balancers keep theirs, so that they close first and no request meets a closing connection."""
    linger_s_max: Positive = 1.0
    """Seconds in which the rest of a refused body is thrown away, so that its sender reads why."""
    stall_s_max: Positive = 10.0
    """Seconds for which a reader may take nothing of its answer until its connection is cut."""
    connections_max: Annotated[int, Field(gt=0, le=100_000)] = 1000
    """Open at once in one process; each takes a file descriptor, of which 1024 are usual, and about
    50 KiB. When there is no room, the connection that has been idle the longest is closed."""
    idle_grace_s: Annotated[float, Field(ge=0)] = 1.0
    """A connection that has been idle for less is never closed to make room: its answer may still
    be on the way, or its first request."""
    compress_bytes_min: Count = 4096
    """A smaller answer is never compressed: it costs more time than it saves."""


class DocumentApi(Listening):
    """Of an API whose bodies are documents, which are read whole. How big is each API's own."""

    json_bytes_max: int
    """Of a body that is a document."""
    bodies_bytes_max: Count
    """Of all documents in hand."""


class Api(Listening):
    """Inference, models, health, metrics and status over HTTP."""

    fast_lane: bool = True
    """Whether plain inference requests are read without aiohttp, at half the cost."""
    calls: CallLimits = CallLimits()
    body_bytes_max: Annotated[int, Field(gt=0, le=2**30)] = 16 * 1024 * 1024
    """Of a request's body, before and after decompression; holds 100 images of 224 x 224 x 3."""
    bodies_bytes_max: Annotated[int, Field(gt=0)] = 256 * 1024 * 1024
    """Of all bodies in hand of one process, packed and unpacked; what does not fit is refused for
    now. Sixteen of the biggest, or the usual small ones of thousands of clients."""

    @model_validator(mode="after")
    def _room_for_one(self) -> Self:
        if self.bodies_bytes_max < 2 * self.body_bytes_max:
            raise ValueError(
                f"bodies_bytes_max {self.bodies_bytes_max} is below twice body_bytes_max "
                f"{self.body_bytes_max}: one packed body, unpacked, must fit"
            )
        return self
