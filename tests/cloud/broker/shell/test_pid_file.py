"""Where the broker's process id stands."""

import os
from pathlib import Path

import pytest

from cloud.broker.shell.process import pid_written
from shared.errors import Unavailable
from tests.brokers import running_broker


@pytest.mark.parametrize("kind", ["embedded", "mosquitto"])
def test_it_stands_there_while_the_broker_runs(kind, tmp_path: Path) -> None:
    with running_broker(kind, tmp_path / "state", pid_file=tmp_path / "pid") as broker:
        assert int((tmp_path / "pid").read_text()) == broker.pid
    assert not (tmp_path / "pid").exists()


def test_what_a_killed_broker_left_is_replaced_and_anothers_stays(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text("1\n")
    with pid_written(path):
        assert path.read_text() == f"{os.getpid()}\n"
        path.write_text("2\n")  # another broker's, started over this one
    assert path.read_text() == "2\n"


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable), pid_written(tmp_path / "file" / "pid"):
        pass
