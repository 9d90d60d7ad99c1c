"""The broker's settings: Mosquitto's, and the embedded one's. Pure.

Mosquitto binds client ids to certificates with `use_username_as_clientid`, without which a device
takes another's session over by its client id. But then two workers with one certificate push each
other off. So it has two listeners: one for devices, and one for services, whose CA is another.
"""

import json
from pathlib import Path

from cloud.broker.limits import Limits
from cloud.broker.mosquitto import Tls, config_text
from cloud.fleet.setup.layout import DEVICES_PORT, SERVICES_PORT, Layout


def mosquitto_text(at: Layout, state_dir: Path, limits: Limits | None = None) -> str:
    """`mosquitto.conf`. Paths in it are as in `at`: give absolute ones.

    SIGHUP reads the ACL and the revocation list again; see docs/identity.md for what stays open.
    """
    server, key = at.certificate("server"), at.key("server")
    devices = Tls(server, key, at.devices_certificate, at.crl)
    text = config_text(
        host="0.0.0.0",  # noqa: S104  devices are on other machines; each shows a certificate
        port=DEVICES_PORT, state_dir=state_dir, limits=limits or Limits(), allow_anonymous=False,
        tls=devices, acl_file=at.acl, pid_file=at.broker_pid,
    )  # fmt: skip
    services = [
        "",
        "# workers and the fleet: certificates of the services' own CA, client ids as they like",
        f"listener {SERVICES_PORT} 0.0.0.0",
        f"certfile {server}",
        f"keyfile {key}",
        f"cafile {at.services_certificate}",
        "require_certificate true",
        "use_identity_as_username true",
    ]
    head = (
        "# Mosquitto for a Hybridge region: mosquitto -c mosquitto.conf. Devices connect to the\n"
    )
    return f"{head}# first listener, workers and the fleet to the second.\n{text}" + "\n".join(
        [*services, ""]
    )


def embedded_text(at: Layout) -> str:
    """`[broker]` of the cloud's TOML file, for the broker that comes with it."""

    def quoted(path: Path) -> str:
        return json.dumps(str(path))

    return f"""\
# The [broker] part of cloud.toml: the embedded broker for devices with certificates.
[broker]
kind = "embedded"
host = "0.0.0.0"
port = {DEVICES_PORT}
tls_cert = {quoted(at.certificate("server"))}
tls_key = {quoted(at.key("server"))}
tls_ca = {quoted(at.clients)}
tls_crl = {quoted(at.crl)}
acl_file = {quoted(at.acl)}
pid_file = {quoted(at.broker_pid)}
"""
