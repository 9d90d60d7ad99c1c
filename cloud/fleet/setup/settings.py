"""`fleet.toml`, as it begins. Pure. Paths in it count from its own folder."""

import json
from typing import Literal

from cloud.fleet.setup.layout import API_PORT, DEVICES_PORT, SERVICES_PORT, Layout

BrokerKind = Literal["embedded", "mosquitto"]


def fleet_text(at: Layout, region: str, host: str, broker: BrokerKind) -> str:
    """`host` is the first that devices connect to."""
    inner = DEVICES_PORT if broker == "embedded" else SERVICES_PORT
    named = f"[{host}]" if ":" in host else host

    def below(path: object) -> str:
        return json.dumps(str(path).removeprefix(f"{at.folder}/"))

    return f"""\
# A region's fleet: hybridge-cloud fleet --config fleet.toml
name = {json.dumps(region)}
state_dir = "state"
device_broker = "mqtts://{named}:{DEVICES_PORT}"

[api]
host = "0.0.0.0"
port = {API_PORT}
tls_cert = {below(at.certificate("server"))}
tls_key = {below(at.key("server"))}
devices_ca = {below(at.devices_certificate)}

[gateway]
key_file = {below(at.keys)}   # hybridge key add keys.jsonl NAME --role operator

[broker]
url = "mqtts://{named}:{inner}"
tls_ca = {below(at.services_certificate)}
tls_cert = {below(at.certificate("fleet"))}
tls_key = {below(at.key("fleet"))}

[identity]
ca = {below(at.devices_ca)}
crl = {below(at.crl)}
acl = {below(at.acl)}
broker_pid_file = {below(at.broker_pid)}   # SIGHUP goes there when a device was revoked

[devices]
needs_enrolment = true
"""
