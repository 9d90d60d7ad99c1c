"""Settings of the asynchronous tier, and of its webhooks."""

import base64
import binascii
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from shared.config import Count, Positive, Section

Port = Annotated[int, Field(gt=0, le=65_535)]


class WebhookSettings(Section):
    """Where results may be sent, and for how long."""

    secrets: dict[str, tuple[SecretStr, ...]] = Field(default_factory=dict)
    """By caller (the gateway's identity, as an API key's id): `whsec_` and the base64 of 24 to 64
    random bytes (Standard Webhooks). Several sign each message, so that one can be changed for
    another. A caller without one may not name a webhook: its receiver could not tell our messages
    from anybody's."""
    allow_http: bool = False
    """Whether `http:` URLs are taken too. Results and signatures are then readable on the way."""
    ports: tuple[Port, ...] = (443,)
    """Ports that may be named. Not 80, as `http:` is not taken either."""
    allow_private: tuple[IPv4Network | IPv6Network, ...] = ()
    """Networks that may be reached although they are not public, as "10.1.0.0/16". Every caller
    can then have this server POST to every machine in them."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    """For one POST, from looking up the name to the end of the answer. Receivers should store and
    answer, then work."""
    resolve_s: Annotated[float, Field(gt=0, le=10)] = 3.0
    """For looking up a name when a job is accepted; its caller waits."""
    response_bytes_max: Count = 16 * 1024
    """Of a receiver's answer that are read, and thrown away; only its status counts."""
    message_bytes_max: Count = 256 * 1024
    """An answer that makes a message bigger is left out of it, with a word on where to fetch it:
    receivers bound what they take."""
    in_flight_max: Annotated[int, Field(gt=0, le=256)] = 16
    """POSTs at once, of one process."""
    caller_in_flight_max: Annotated[int, Field(gt=0, le=256)] = 4
    """Of these for one caller, about: a receiver that hangs keeps no other waiting."""
    attempts_max: Count = 60
    """With the pauses below that is 4 h on average, and the job's expiry ends it too."""
    backoff_s_min: Positive = 5.0
    """The first pause after a failure is random up to this, in s; each next up to twice that."""
    backoff_s_max: Positive = 600.0
    """The longest, in s."""

    @field_validator("secrets")
    @classmethod
    def _are_keys(cls, found: dict[str, tuple[SecretStr, ...]]) -> dict[str, tuple[SecretStr, ...]]:
        for caller, secrets in found.items():
            if not secrets:
                raise ValueError(f"{caller}: has no secret in its list; name one or remove it")
            for secret in secrets:
                key_of(secret, caller)
        return found


class JobSettings(Section):
    """How many jobs are kept, for how long, and how often one is tried."""

    url: str | None = None
    """An SQLAlchemy URL. None: SQLite, `jobs.db` in `state_dir`, which one machine's processes
    share."""
    jobs_max: Count = 20_000
    """Jobs kept, ended ones too until they are deleted. Counting them costs an admission 0.1 ms for
    each thousand."""
    bytes_max: Count = 2 * 1024**3
    """Bytes kept, of requests and answers and 600 a job. Fits a small disk."""
    caller_jobs_max: Count = 2_000
    """One caller's share of `jobs_max`."""
    caller_bytes_max: Count = 256 * 1024**2
    """One caller's share of `bytes_max`."""
    answer_bytes_expected: Count = 16 * 1024
    """Set aside for each answer that has not come: 32 samples of 10 classes take 5 KB."""
    answer_bytes_max: Count = 8 * 1024**2
    """A bigger answer fails its job."""
    expiry_s: Annotated[float, Field(gt=0, le=7 * 86_400)] = 86_400.0
    """From its acceptance until a job without an answer is given up, and until an answer that
    nobody fetched is deleted: a day, so that a job of the night is there in the morning."""
    kept_s: Annotated[float, Field(gt=0, le=86_400)] = 3_600.0
    """For which an answer that was fetched can be fetched again, and the least for any answer."""
    in_hand_max: Annotated[int, Field(gt=0, le=1_024)] = 32
    """Jobs that one process runs at once: a full batch."""
    in_hand_bytes_max: Count = 64 * 1024**2
    """Of these jobs, as `bytes_max` counts them; a bigger one is run alone. Bounds memory."""
    attempt_s: Annotated[float, Field(gt=0, le=3_600)] = 20.0
    """For one attempt. Below the time to drain (30 s), so that a shutdown finishes what runs."""
    lease_s: Annotated[float, Field(gt=0, le=7_200)] = 60.0
    """After which a job, or a delivery, of a process that died is taken by another."""
    claims_max: Annotated[int, Field(gt=0, le=100)] = 3
    """Leases in a row that may end with no word from the process: such a job kills its workers."""
    attempts_max: Count = 200
    """Attempts that may end in "try again later". With the pauses below that is 8 h on average."""
    backoff_s_min: Positive = 1.0
    """The first pause after a failure is random up to this, in s; each next up to twice that."""
    backoff_s_max: Positive = 300.0
    """The longest, in s."""
    look_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """How long another process's job or result may go unseen, in s. This process's are seen at
    once."""
    sweep_s: Annotated[float, Field(gt=0, le=3_600)] = 15.0
    """Between two looks for what has expired, in s."""
    pending_max: Count = 1_024
    """Changes that may wait for a commit; what comes above it is refused."""
    wait_ms_max: Annotated[int, Field(ge=0, le=120_000)] = 20_000
    """The longest `wait_ms` that is granted. Proxies cut at 30 or 60 s."""
    waits_max: Count = 1_000
    """Such requests that may wait; the next is answered at once."""
    webhook: WebhookSettings = WebhookSettings()

    @model_validator(mode="after")
    def _lease_outlasts_an_attempt(self) -> Self:
        for name, took_s in (
            ("attempt_s", self.attempt_s),
            ("webhook.timeout_s", self.webhook.timeout_s),
        ):
            if self.lease_s < took_s + 5:  # 5 s: a commit of another process is waited for so long
                raise ValueError(
                    f"lease_s {self.lease_s:g} is not 5 s above {name} {took_s:g}: another process "
                    "would take what this one still works at"
                )
        return self


def key_of(secret: SecretStr, caller: str) -> bytes:
    """The signing key in a `whsec_` text. Raises `ValueError` in words, without the secret."""
    text = secret.get_secret_value()
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not (text.startswith("whsec_") and 24 <= len(key) <= 64):
        raise ValueError(f"{caller}: a secret is `whsec_` and the base64 of 24 to 64 random bytes")
    return key
