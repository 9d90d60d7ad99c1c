"""Which broker the cloud process uses, and with what bounds."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from cloud.broker.exposure import check_exposed
from cloud.broker.limits import Limits
from shared.broker_url import parse_url
from shared.config import Section
from shared.errors import Malformed


class BrokerSettings(Section):
    """The `broker` part of the cloud's configuration."""

    kind: Literal["embedded", "mosquitto", "url"] = "embedded"
    """Start ours, start Mosquitto from PATH, or use one that runs elsewhere."""
    host: str = "127.0.0.1"
    """Where the started broker listens. Anything but this machine needs `password_file`, `tls_ca`,
    or `allow_anonymous = true` said aloud."""
    port: int = Field(default=0, ge=0, le=65_535)
    """0 picks a free one."""
    url: SecretStr | None = None
    """`mqtt://[user:password@]host[:port]` or `mqtts://...`, for kind `url`."""
    state_dir: Path | None = None
    """Where the broker keeps what must outlive it, and its admin socket. The embedded one works
    without, in memory; Mosquitto needs it for its configuration too."""
    synchronous: Literal["full", "normal", "off"] = "full"
    """What the embedded broker's acknowledgements outlive: a power cut (full), or only the
    broker's own end, kill -9 too."""
    allow_anonymous: bool | None = None
    """Clients without a password. None: only where there is no `password_file`."""
    password_file: Path | None = None
    """Users: `hybridge broker passwd` writes it for the embedded broker, mosquitto_passwd for
    Mosquitto; their hashes differ."""
    bind_client_ids: bool = False
    """Users with a password may have client ids of their own name only: `name`, `name/...`. With
    certificates that is always so. The embedded broker's."""
    acl_file: Path | None = None
    """Who may publish and read what, in Mosquitto's syntax; see firmware_configs/broker/acl.conf.
    None: everybody everything."""
    tls_cert: Path | None = None
    """Server certificate chain, PEM."""
    tls_key: Path | None = None
    """Its private key, PEM."""
    tls_ca: Path | None = None
    """If given, clients must show a certificate signed by it; its common name is their user name
    and binds their client id."""
    tls_crl: Path | None = None
    """Revoked client certificates, PEM, signed by a CA in `tls_ca`. Read again with the password and
    the ACL file (SIGHUP), which ends the sessions of those that it names; Mosquitto reads it again
    too, but leaves sessions open."""
    websocket_port: int | None = Field(default=None, ge=0, le=65_535)
    """MQTT over WebSockets, on `host`. None: not offered."""
    websocket_origins: tuple[str, ...] = ()
    """Web pages that may connect, as browsers write them: `https://host[:port]`."""
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Prometheus metrics over HTTP, on this machine only. None: only on the admin socket."""
    sys_interval_s: float = Field(default=10.0, ge=0)
    """How often `$SYS/broker/...` is published. 0: never."""
    pid_file: Path | None = None
    """Where the broker's process id stands while it runs: whoever changes `tls_crl` or `acl_file`
    sends it SIGHUP."""
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
        if self.tls_crl is not None and self.tls_ca is None:
            raise ValueError("tls_crl needs tls_ca, who signed it")
        if self.url is not None:
            parse_url(self.url.get_secret_value())
        if self.kind == "mosquitto" and (self.websocket_port, self.metrics_port) != (None, None):
            raise ValueError("websocket_port and metrics_port are the embedded broker's")
        if self.kind == "mosquitto" and self.bind_client_ids:
            raise ValueError("bind_client_ids is the embedded broker's; use certificates")
        guarded = bool(self.password_file or self.tls_ca or self.allow_anonymous)
        if self.kind != "url":
            try:
                check_exposed(self.host, is_guarded=guarded)
            except Malformed as error:
                words = "(password_file, tls_ca, allow_anonymous)"
                raise ValueError(f"{error} {words}") from error
        return self

    @property
    def lets_anonymous_in(self) -> bool:
        """`allow_anonymous`, or what follows from there being a password file."""
        if self.allow_anonymous is not None:
            return self.allow_anonymous
        return self.password_file is None
