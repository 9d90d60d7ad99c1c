"""Mosquitto's configuration as this project needs it (measured in docs/adr/0002). Pure."""

from dataclasses import dataclass
from pathlib import Path

from cloud.broker.limits import Limits
from shared.errors import Malformed

RUNNING = " running"
"""How the line ends that Mosquitto logs once its listeners are open."""
MESSAGE_BYTES = 8_192
"""What a waiting message is taken to hold where a bound in bytes becomes one in messages."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for a TLS listener; with `ca`, clients must show a certificate."""

    cert: Path
    key: Path
    ca: Path | None = None
    crl: Path | None = None


def config_text(
    *,
    host: str,
    port: int,
    state_dir: Path,
    limits: Limits,
    allow_anonymous: bool,
    run_as: str | None = None,
    tls: Tls | None = None,
    password_file: Path | None = None,
    acl_file: Path | None = None,
    pid_file: Path | None = None,
) -> str:
    """Write mosquitto.conf. `run_as` keeps a broker started by root able to write `state_dir`.

    Raises:
        Malformed: a value holds a line break, which would start another directive.

    """
    lines = [
        f"listener {port} {host}",
        f"allow_anonymous {'true' if allow_anonymous else 'false'}",
        f"max_connections {limits.connections_max}",
        "set_tcp_nodelay true",
        "persistence true",
        f"persistence_location {state_dir}/",
        f"persistent_client_expiration {max(1, limits.session_expiry_s_max // 3600)}h",
        "# a full queue drops while the publisher hears success, so: more than the default 1,000",
        f"max_queued_messages {max(1_000, limits.queued_bytes_max // MESSAGE_BYTES)}",
        "# 2.0.11 counts every byte that ever waited: a bound in bytes would end a busy session",
        "max_queued_bytes 0",
        f"max_inflight_messages {limits.inflight_max}",
        f"max_packet_size {limits.packet_bytes_max}",
        "connection_messages false",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
        "log_type information",
    ]
    if run_as is not None:
        lines.append(f"user {run_as}")
    if password_file is not None:
        lines.append(f"password_file {password_file}")
    if acl_file is not None:
        lines.append(f"acl_file {acl_file}")
    if pid_file is not None:
        lines.append(f"pid_file {pid_file}")
    if tls is not None:
        lines += [f"certfile {tls.cert}", f"keyfile {tls.key}"]
        if tls.ca is not None:
            lines += [
                f"cafile {tls.ca}",
                "require_certificate true",
                "use_identity_as_username true",
                "# without it, another device's certificate can take a client's identifier over",
                "use_username_as_clientid true",
            ]
        if tls.crl is not None:
            lines.append(f"crlfile {tls.crl}")
    for line in lines:
        if "\n" in line or "\r" in line:
            raise Malformed(f"mosquitto.conf: {line!r} holds a line break")
    return "\n".join(lines) + "\n"
