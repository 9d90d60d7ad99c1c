"""One real fleet process, with four devices, for the tests of its API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.fleet.light import light_devices
from tests.cloud.fleet.servers import FleetProcess, fleet
from tests.cloud.keyed_process import until


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    with fleet(folder) as process, light_devices(process.broker, 4):
        until(lambda: process.get("/v1/fleet").json["online"] == 4)
        yield process
