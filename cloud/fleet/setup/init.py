"""Write all that `layout` names: what `hybridge fleet init` does. Blocking."""

import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from cloud.fleet.identity.ca import CERTIFICATE, CRL, SERVERS, DeviceCa, write_key
from cloud.fleet.setup.acl import ACL
from cloud.fleet.setup.brokers import embedded_text, mosquitto_text
from cloud.fleet.setup.layout import SERVICES, Layout, check_hosts, check_region
from cloud.fleet.setup.settings import BrokerKind, fleet_text
from shared.disk import write_whole
from shared.errors import Conflict

SERVICE_DAYS: Final = 730.0
"""`renew` gives new ones; until then nobody at the region has to think of them for two years."""
_KEYS: Final = "# API keys of the fleet: hybridge key add keys.jsonl NAME --role operator\n"


def create(
    folder: Path, region: str, hosts: tuple[str, ...], broker: BrokerKind = "embedded"
) -> list[Path]:
    """Make a region's CAs, certificates and settings; gives the files, the one to begin with first.

    `hosts`: names and addresses at which devices reach the broker and the API.

    Raises:
        Malformed: the region's name or a host.
        Conflict: something of it is there already: devices know that CA, so nothing is replaced.
        Unavailable: it cannot be written.

    """
    now, at = time.time(), Layout(folder.absolute())
    check_region(region)
    names = check_hosts(hosts)
    for path in (at.devices_ca, at.services_ca, at.fleet_config, at.acl):
        if path.exists():
            raise Conflict(f"{path} exists already; nothing was changed. Name an empty folder")
    services = DeviceCa.create(at.services_ca, f"{region} services", now)
    devices = DeviceCa.create(at.devices_ca, f"{region} devices", now)
    write_whole(at.devices_ca / SERVERS, services.certificate_pem.encode())
    write_whole(at.devices_ca / CRL, devices.crl({}, now).encode())
    made = _certify(at, services, names, now)
    texts = {
        at.fleet_config: fleet_text(at, region, hosts[0], broker),
        at.acl: ACL,
        at.clients: devices.certificate_pem + services.certificate_pem,
    }
    if broker == "mosquitto":
        state_dir = at.folder / "broker" / "state"
        state_dir.mkdir(parents=True, exist_ok=True)
        texts[at.mosquitto_config] = mosquitto_text(at, state_dir)
    else:
        texts[at.broker_config] = embedded_text(at)
    for path, text in texts.items():
        write_whole(path, text.encode())
    at.acl.chmod(0o600)  # newer Mosquitto refuses one that others may read
    write_whole(at.keys, _KEYS.encode(), private=True)
    cas = [path / CERTIFICATE for path in (at.devices_ca, at.services_ca)]
    return [*texts, at.keys, *cas, at.devices_ca / SERVERS, at.devices_ca / CRL, *made]


def renew(folder: Path, hosts: tuple[str, ...]) -> list[Path]:
    """New certificates and keys for the region's own processes, of the CA that is there.

    Restart them, and the broker, afterwards: they read these files at their start. Raises as
    `create`, and as `DeviceCa.open`.
    """
    at = Layout(folder.absolute())
    return _certify(at, DeviceCa.open(at.services_ca), check_hosts(hosts), time.time())


def _certify(
    at: Layout,
    ca: DeviceCa,
    hosts: tuple[str | IPv4Address | IPv6Address, ...],
    now: float,
) -> list[Path]:
    found: tuple[x509.GeneralName, ...] = tuple(
        x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host) for host in hosts
    )
    made: list[Path] = []
    for name, names in (("server", found), *((one, ()) for one in SERVICES)):
        key = ec.generate_private_key(ec.SECP256R1())
        issued = ca.issue_service(key.public_key(), name, now, SERVICE_DAYS, names)
        write_key(at.key(name), key)
        write_whole(at.certificate(name), issued.pem.encode())
        made += [at.certificate(name), at.key(name)]
    return made
