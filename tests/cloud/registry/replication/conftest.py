import logging

import pytest

from tests.cloud.registry.replication.world import World


@pytest.fixture
def world(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    return World(tmp_path)
