"""A job as it is stored: what was asked, how it stands, what came of it. Pure."""

import hashlib
from dataclasses import dataclass
from typing import Literal, NewType
from uuid import UUID

from shared.errors import Unknown
from shared.oip.body import Encoded

JobId = NewType("JobId", UUID)

State = Literal["queued", "running", "done", "failed", "cancelled", "expired"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "expired")
LIVE: tuple[State, ...] = ("queued", "running")

Reason = Literal["refused", "unavailable", "fault", "poison", "no_room", "expired", "unfetched"]
"""Why there is no answer. `unavailable`: tried as often as the settings say; `poison`: each worker
that took it died; `unfetched`: nobody came for the answer in time."""

DeliveryState = Literal["pending", "sending", "delivered", "given_up"]


def job_id(text: str) -> JobId:
    """Parse the textual form. Raises `Unknown`: what is no id names no job."""
    try:
        return JobId(UUID(text))
    except ValueError as error:
        raise Unknown(f"results: there is no {text[:60]!r}") from error


@dataclass(frozen=True, slots=True)
class NewJob:
    """An Open Inference Protocol request as it came in, no longer compressed.

    `caller` is the gateway's identity of whoever asks; `within_s` its own deadline, None: the tier's.
    """

    id: JobId
    caller: str
    model: str
    version: str | None
    body: bytes
    header_length: str | None
    webhook: str | None = None
    idempotency_key: str | None = None
    request_id: str = ""
    traceparent: str = ""
    within_s: float | None = None

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that makes two requests the same one."""
        parts = (self.model, self.version or "", self.header_length or "", self.webhook or "")
        names = "\0".join(parts).encode()
        return hashlib.sha256(len(names).to_bytes(4, "big") + names + self.body).digest()


@dataclass(frozen=True, slots=True)
class Admitted:
    """`fresh` is false for an idempotency key that was seen before."""

    id: JobId
    fresh: bool


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job in this process's hand until `lease_until`. Times are Unix seconds."""

    seq: int
    owner: str
    id: JobId
    caller: str
    model: str
    version: str | None
    body: bytes
    header_length: str | None
    has_webhook: bool
    request_id: str
    traceparent: str
    row_bytes: int
    attempts: int
    expires_at: float
    lease_until: float


@dataclass(frozen=True, slots=True)
class Failure:
    """`error` is the class in `shared.errors` that the synchronous route would have raised."""

    reason: Reason
    error: str
    detail: str


@dataclass(frozen=True, slots=True)
class JobView:
    """What a caller may see of a job. Times are Unix seconds; `kept_until` None: not ended."""

    id: JobId
    caller: str
    model: str
    version: str | None
    state: State
    attempts: int
    created_at: float
    expires_at: float
    ended_at: float | None
    kept_until: float | None
    fetched: bool
    failure: Failure | None
    delivery: DeliveryState | None


@dataclass(frozen=True, slots=True)
class Result:
    """`answer` only where `view.state` is `done`."""

    view: JobView
    answer: Encoded | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A result to be POSTed, in this process's hand. Times are Unix seconds."""

    seq: int
    owner: str
    id: JobId
    caller: str
    url: str
    model: str
    state: State
    ended_at: float
    answer: Encoded | None
    failure: Failure | None
    attempts: int
    until: float
