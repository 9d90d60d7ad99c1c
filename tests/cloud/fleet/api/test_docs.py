"""docs/fleet.md: its table of routes is the server's, and its settings load."""

import re
import tomllib
from random import Random

from prometheus_client import CollectorRegistry

from cloud.fleet.api.app import FleetServer
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.asks import Asks
from cloud.fleet.config import FleetConfig, parse
from cloud.fleet.control import Control
from cloud.fleet.devices import Fleet
from cloud.fleet.drift.drifting import Drifting
from cloud.fleet.drift.keeping import DriftKeeping
from cloud.fleet.drift.references import References
from cloud.fleet.driving.driver import Driver
from cloud.fleet.happened import Happened
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.publishing import Publishing
from cloud.fleet.released import Released
from cloud.fleet.store.database import FleetDatabase
from tests.cloud.keyed_process import ROOT

PAGE = (ROOT / "docs" / "fleet.md").read_text()


def server() -> FleetServer:
    counts = CollectorRegistry()
    config, metrics = FleetConfig(), FleetMetrics(counts)
    fleet = Fleet(FleetDatabase("sqlite://"), config.devices)
    publishing, happened = Publishing(fleet, metrics), Happened(fleet)
    driver = Driver(fleet, config.driving, metrics, publishing.kick, happened.look)
    asks = Asks(publishing.send, 1, 1.0)
    drifting = Drifting(
        DriftKeeping(FleetDatabase("sqlite://"), config.devices), References(None, Random()),
        config.drift, metrics, happened.look,
    )  # fmt: skip
    control = Control(
        "x", fleet, driver, asks, publishing, Released(None), happened, drifting, lambda: None,
        lambda: 0.0,
    )  # fmt: skip
    return FleetServer(control, None, None, FleetApi(), metrics, counts)


def test_the_table_of_routes_is_the_servers() -> None:
    written = set(re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \|$", PAGE, re.MULTILINE))
    served = {
        (route.method, route.path, "anyone" if route.role is None else route.role.value)
        for route in server().routes
    }
    assert written == served


def test_the_first_settings_load() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert parse(tomllib.loads(block), "docs").devices.needs_enrolment is False


def test_every_section_is_in_the_table() -> None:
    for name in FleetConfig.model_fields:
        assert f"`[{name}]`" in PAGE or f"`{name}`" in PAGE, name
