"""A real fleet process on a free port, with keys of each role and a real broker, for everybody."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cloud.broker.launch import BrokerAddress
from cloud.gateway.roles import Role
from tests.brokers import running_broker
from tests.cloud.keyed_process import KeyedProcess

ROLES = (Role.VIEWER, Role.APPROVER, Role.OPERATOR)


class FleetProcess(KeyedProcess):
    """Devices need no enrolment unless its settings have a table `[devices]`."""

    def __init__(self, folder: Path, broker: BrokerAddress, settings: str = "") -> None:
        self.broker = broker
        host, port, _tls = broker.for_owner
        user = f"{broker.username}:{broker.password}@" if broker.username else ""
        defaults = {
            "broker": f'url = "mqtt://{user}{host}:{port}"',
            "devices": "needs_enrolment = false",
            "driving": "tick_s = 0.1\nsettle_s = 0.2",
            "ingest": "batch_s = 0.05",
        }
        super().__init__("fleet", folder, ROLES, settings, defaults)


@contextlib.contextmanager
def fleet(folder: Path, settings: str = "") -> Iterator[FleetProcess]:
    """With an embedded broker of its own, until the block ends; then killed."""
    with (
        running_broker("embedded", folder / "broker") as broker,
        FleetProcess(folder, broker, settings) as running,
    ):
        yield running
