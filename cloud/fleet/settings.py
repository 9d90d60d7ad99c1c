"""Settings of the fleet's own work, beside those of its parts."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from cloud.fleet.device_settings import DeviceSettings
from shared.broker_url import parse_url
from shared.config import Count, Positive, Section
from shared.errors import Malformed
from shared.fetching.settings import Server


class FleetBroker(Section):
    """The region's broker, which others start. The fleet has one connection, as user `fleet`."""

    url: SecretStr = SecretStr("mqtt://127.0.0.1:1883")
    """`mqtt://[user:password@]host[:port]` or `mqtts://...`."""
    tls_ca: Path | None = None
    """PEM file of who vouches for the broker. None: the system's own list."""
    tls_cert: Path | None = None
    """The fleet's certificate, PEM, whose common name is `fleet`."""
    tls_key: Path | None = None
    """Its private key, PEM."""
    keepalive_s: Annotated[int, Field(gt=0, le=65_535)] = 15
    """Silence after which the broker takes this process for dead, x 1.5."""
    backoff_s_max: Annotated[float, Field(gt=0, le=300)] = 5.0
    """Longest pause between attempts to reach the broker, before jitter."""
    receive_max: Annotated[int, Field(gt=0, le=65_535)] = 2000
    """Deliveries in hand, unacknowledged; the broker sends no more. Bounds memory, at 16 KiB each."""
    publish_max: Annotated[int, Field(gt=0, le=65_535)] = 500
    """Desired state on its way without the broker's word; 8 KiB each at most."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        try:
            parse_url(self.url.get_secret_value())
        except Malformed as error:
            raise ValueError(str(error)) from error
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        return self


class Devices(DeviceSettings):
    url: str | None = None
    """An SQLAlchemy URL of the store. None: SQLite in `state_dir`."""


class Ingest(Section):
    """What comes from devices."""

    batch_s: Annotated[float, Field(gt=0, le=5)] = 0.2
    """Messages are stored together, this often: one commit for all, and a report is at most so
    much later acknowledged."""
    batch_max: Count = 500
    """Or when so many wait."""
    pending_max: Count = 20_000
    """Messages that may wait, in memory. Reports beyond it are left unacknowledged, and come again
    with the next connection; telemetry beyond it is dropped and counted, for its counters are
    cumulative."""
    per_device_s: Positive = 1.0
    """Messages a second of one device, on average; a device has 0.03. Beyond it they are dropped and
    counted, and the device is named in the log."""
    per_device_burst: Count = 60
    """And at once: after an outage a device has a state, three reports and its telemetry, and a
    rollout's phases follow each other within seconds."""


class Driving(Section):
    """What moves rollouts."""

    tick_s: Annotated[float, Field(gt=0, le=60)] = 0.5
    """Between two looks at the clock and at what came; each is one commit for each rollout that
    changed."""
    events_max: Count = 50_000
    """Events that wait for a look. Beyond it they are dropped, counted, and read from the store."""
    settle_s: Positive = 2.0
    """Between two looks for devices that should have what their group has, and do not."""


class RegistryAsk(Server):
    """Whom to ask whether a version is released."""


class Identity(Section):
    """The region's device CA (`hybridge fleet init` makes it). None: devices are not enrolled here."""

    ca: Path
    """The CA's folder."""
    days: Annotated[float, Field(gt=0, le=3650)] = 90.0
    """Life of a device's certificate. Renewed from two thirds on, so a device may be away for a
    month and still have time."""
    grace_days: Annotated[float, Field(ge=0, le=3650)] = 365.0
    """An expired certificate may still be renewed for so long, by whoever has its key."""
    crl: Path | None = None
    """Where the list of revoked certificates is written for the broker. None: in the CA's folder."""
    crl_days: Annotated[float, Field(gt=0, le=365)] = 30.0
    """The list is valid for so long; it is written anew at half of it, and at each revocation."""
    acl: Path | None = None
    """The broker's rules, written anew with a line for each revoked device: Mosquitto leaves the open
    connection of a revoked certificate open, and such a line shuts it up. None: for the embedded
    broker, which ends them."""
    broker_pid_file: Path | None = None
    """The broker's process id; it is sent SIGHUP when the list has changed. None: somebody else
    tells the broker, or it looks by itself."""
