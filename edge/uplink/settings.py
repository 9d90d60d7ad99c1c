"""The `uplink` part of the agent's settings."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from edge.routing.settings import Budget
from edge.uplink.sender import Limits
from shared import ids
from shared.broker_url import BrokerUrl, parse_url
from shared.config import Positive, Section
from shared.errors import Malformed
from shared.mqtt.settings import LinkSettings


class Uplink(Section):
    """The MQTT link to the cloud."""

    url: str
    """mqtt://host[:port] (1883) or mqtts://host[:port] (8883)."""

    username: str | None = None
    """Absent where the client certificate is the identity."""

    password: SecretStr | None = None
    """Never logged."""

    ca: Path | None = None
    """PEM file of the broker's authority; the system's store when absent."""

    certificate: Path | None = None
    """PEM file of this device's certificate."""

    key: Path | None = None
    """PEM file of its private key."""

    keepalive_s: Annotated[int, Field(ge=5, le=3600)] = 30
    """Seconds; a dead link is noticed within 1.5 times this."""

    window: Annotated[int, Field(ge=1, le=1000)] = 20
    """Publishes without PUBACK; 20 reach paho's full speed (FINDINGS 2)."""

    unanswered_max: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Samples with the cloud at once; enough for 2,000 answers/s at 100 ms, and all that a slow
    cloud has to queue for this device."""

    answer_timeout_s: Positive = 5.0
    """Seconds without an answer until a sample is sent again; five full deadlines."""

    backoff_s_min: Positive = 0.2
    """First reconnect or retry delay, in s, before jitter."""

    backoff_s_max: Positive = 30.0
    """Longest one, in s: a fleet returns within half a minute of its broker."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            self.address()
        except Malformed as error:
            raise ValueError(str(error)) from error
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key come together")
        return self

    def address(self) -> BrokerUrl:
        """Raises `Malformed`."""
        if "@" in self.url:
            raise Malformed("url: put credentials into username and password, not into the url")
        return parse_url(self.url)

    def link_settings(self, device: ids.DeviceId) -> LinkSettings:
        address = self.address()
        return LinkSettings(
            host=address.host, port=address.port, client_id=device, username=self.username,
            password=None if self.password is None else self.password.get_secret_value(),
            tls=address.tls, tls_ca=_text(self.ca), tls_certificate=_text(self.certificate),
            tls_key=_text(self.key), keepalive_s=self.keepalive_s, window=self.window,
            backoff_s_min=self.backoff_s_min, backoff_s_max=self.backoff_s_max,
        )  # fmt: skip


def limits_of(uplink: Uplink, budget: Budget) -> Limits:
    return Limits(
        uplink.unanswered_max, uplink.answer_timeout_s, uplink.backoff_s_min,
        uplink.backoff_s_max, budget.samples_per_s, budget.bytes_per_s, budget.burst_s,
    )  # fmt: skip


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
