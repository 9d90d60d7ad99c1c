"""The `api` part of a fleet's configuration, and the bounds of what it takes."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from cloud.api.settings import DocumentApi
from shared.config import Count, Positive


class FleetApi(DocumentApi):
    port: Annotated[int, Field(ge=0, le=65_535)] = 8720
    """0 picks a free one; the ready line names it."""
    json_bytes_max: Annotated[int, Field(gt=0, le=16 * 1024**2)] = 256 * 1024
    """Of a body. A rollout's specification has 2 KB, a request for a certificate 1 KB."""
    bodies_bytes_max: Count = 16 * 1024 * 1024
    """Of all bodies in hand."""
    waits_max: Annotated[int, Field(gt=0, le=10_000)] = 256
    """Questions that wait for a change; each `rollout status -w` has one."""
    wait_s_max: Annotated[float, Field(gt=0, le=60)] = 55.0
    """How long each may wait; proxies close silent connections after a minute."""
    page_max: Annotated[int, Field(gt=0, le=5000)] = 1000
    """Devices of one answer, of 1 to 3 KB each."""
    told_s_max: Positive = 10.0
    """Seconds that a device has to send its log lines: a mobile link that wakes up needs five."""
    asks_max: Annotated[int, Field(gt=0, le=1000)] = 32
    """Questions to devices that wait for their answers."""
    tls_cert: Path | None = None
    """Server certificate chain, PEM. None: no TLS, and nobody can renew his certificate here."""
    tls_key: Path | None = None
    """Its private key, PEM."""
    devices_ca: Path | None = None
    """PEM file of the region's CA: who shows a certificate of it is that device. Asked for, not
    demanded: operators have keys."""
    enrol_burst: Count = 20
    """Failed enrolments that an address may have at once, a whole site behind one address."""
    enrol_per_s: Positive = 0.2
    """And after that. Tokens are of 128 bits: nobody guesses one, this bounds the work."""
    enrol_per_s_total: Positive = 50.0
    """Of all addresses together."""

    @model_validator(mode="after")
    def _tls_fits(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        if self.devices_ca is not None and self.tls_cert is None:
            raise ValueError("devices_ca needs tls_cert and tls_key")
        return self
