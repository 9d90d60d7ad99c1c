"""Mosquitto's configuration as this project needs it (measured in docs/adr/0002). Pure."""

from dataclasses import dataclass
from pathlib import Path

from cloud.broker.limits import Limits
from shared.errors import Malformed

RUNNING = " running"
"""How the line ends that Mosquitto logs once its listeners are open."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for a TLS listener; with `ca`, clients must show a certificate."""

    cert: Path
    key: Path
    ca: Path | None = None


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
        "# 0 lifts the bound of 1,000 messages that drops while the publisher hears success",
        "max_queued_messages 0",
        f"max_queued_bytes {limits.queued_bytes_max}",
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
    for line in lines:
        if "\n" in line or "\r" in line:
            raise Malformed(f"mosquitto.conf: {line!r} holds a line break")
    return "\n".join(lines) + "\n"
