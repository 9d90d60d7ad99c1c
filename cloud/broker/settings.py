"""Which broker the cloud process uses, and with what bounds."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from cloud.broker.limits import Limits
from shared.broker_url import parse_url
from shared.config import Section


class BrokerSettings(Section):
    """The `broker` part of the cloud's configuration."""

    kind: Literal["embedded", "mosquitto", "url"] = "embedded"
    """Start ours, start Mosquitto from PATH, or use one that runs elsewhere."""
    host: str = "127.0.0.1"
    """Where the started broker listens; without TLS and ACLs it is for this machine only."""
    port: int = Field(default=0, ge=0, le=65_535)
    """0 picks a free one."""
    url: SecretStr | None = None
    """`mqtt://[user:password@]host[:port]` or `mqtts://...`, for kind `url`."""
    state_dir: Path | None = None
    """Where Mosquitto keeps its configuration and its store; the embedded one has none yet."""
    allow_anonymous: bool = True
    """For Mosquitto. False makes sense only beside certificates."""
    tls_cert: Path | None = None
    """Server certificate chain, PEM."""
    tls_key: Path | None = None
    """Its private key, PEM."""
    tls_ca: Path | None = None
    """If given, clients must show a certificate signed by it."""
    start_timeout_s: float = Field(default=15.0, gt=0)
    """From the start of the process to its first connection; a cold disk takes seconds."""
    stop_timeout_s: float = Field(default=5.0, gt=0)
    """From SIGTERM to SIGKILL."""
    limits: Limits = Limits()
    """Bounds; Mosquitto takes those it has a setting for."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.kind == "url") != (self.url is not None):
            raise ValueError("url is for kind 'url', which needs it")
        if self.kind == "mosquitto" and self.state_dir is None:
            raise ValueError("kind 'mosquitto' needs state_dir")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        if self.tls_ca is not None and self.tls_cert is None:
            raise ValueError("tls_ca needs tls_cert and tls_key")
        if self.url is not None:
            parse_url(self.url.get_secret_value())
        return self
