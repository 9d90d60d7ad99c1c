"""One folder of tiny bundles, and one server of each lane, for all tests that change neither."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.api.servers import LANES, Running, bundles, server


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    bundles(folder)
    return folder


@pytest.fixture(scope="session", params=LANES)
def running(request: pytest.FixtureRequest, folder: Path) -> Iterator[Running]:
    with server(folder, request.param) as running:
        yield running
