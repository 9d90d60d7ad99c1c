"""Where a region's files lie, below one folder. Pure.

Two CAs: one vouches for devices, the other for this region's own processes. So no certificate that
a device can get opens the listener for services, and none of a device passes for a server.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from shared.errors import Malformed

SERVICES: Final = ("worker", "fleet")
"""Clients of the broker that are no devices."""
HOSTS_MAX: Final = 16
DEVICES_PORT: Final = 8883
SERVICES_PORT: Final = 8884
"""Mosquitto's listener for workers and the fleet; the embedded broker has one for all."""
API_PORT: Final = 8720
_REGION: Final = re.compile(r"[A-Za-z0-9_.-]{1,50}")
_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")


@dataclass(frozen=True, slots=True)
class Layout:
    folder: Path

    @property
    def devices_ca(self) -> Path:
        return self.folder / "devices-ca"

    @property
    def services_ca(self) -> Path:
        return self.folder / "services-ca"

    @property
    def devices_certificate(self) -> Path:
        return self.devices_ca / "certificate.pem"

    @property
    def services_certificate(self) -> Path:
        return self.services_ca / "certificate.pem"

    @property
    def crl(self) -> Path:
        return self.devices_ca / "crl.pem"

    @property
    def acl(self) -> Path:
        return self.folder / "broker" / "acl.conf"

    @property
    def clients(self) -> Path:
        """Both CAs' certificates: whom the embedded broker lets in."""
        return self.folder / "broker" / "clients.pem"

    @property
    def broker_config(self) -> Path:
        """The embedded broker's, for the cloud's TOML file."""
        return self.folder / "broker" / "broker.toml"

    @property
    def mosquitto_config(self) -> Path:
        return self.folder / "broker" / "mosquitto.conf"

    @property
    def broker_pid(self) -> Path:
        return self.folder / "broker" / "broker.pid"

    @property
    def fleet_config(self) -> Path:
        return self.folder / "fleet.toml"

    @property
    def keys(self) -> Path:
        return self.folder / "keys.jsonl"

    def certificate(self, name: str) -> Path:
        return self.folder / "tls" / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.folder / "tls" / f"{name}.key"


def check_region(name: str) -> str:
    """Raises `Malformed`."""
    if not _REGION.fullmatch(name):
        raise Malformed(f"region {name[:60]!r}: use 1 to 50 of letters, digits, '_', '.' and '-'")
    return name


def check_hosts(hosts: tuple[str, ...]) -> tuple[str | IPv4Address | IPv6Address, ...]:
    """Names and addresses that devices connect to, without ports. Raises `Malformed`."""
    if not 1 <= len(hosts) <= HOSTS_MAX:
        raise Malformed(f"hosts: name 1 to {HOSTS_MAX} that devices connect to, as mqtt.example")
    return tuple(dict.fromkeys(_host(one) for one in hosts))


def _host(text: str) -> str | IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError:
        labels = text.split(".")
        if len(text) <= 253 and all(_LABEL.fullmatch(one) for one in labels):
            return text.lower()
    raise Malformed(f"host {text[:80]!r}: want a name or an address without a port")
