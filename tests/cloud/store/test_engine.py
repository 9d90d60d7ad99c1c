"""A database that is none, that is not there, that goes and comes back."""

import os
import re
import socket

import pytest
import sqlalchemy as sa

from cloud.fleet.store.database import FleetDatabase
from cloud.jobs.database import JobDatabase
from cloud.registry.store.database import RegistryDatabase
from cloud.training.store.database import LearningDatabase
from shared.errors import Malformed, Unavailable
from simulations.postgres import running_postgres
from tests.cloud.store.databases import KINDS


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.mark.parametrize("url", ["", "nonsense", "nosuch://x", "postgresql+nosuch://x"])
def test_a_url_that_is_none_is_refused(kind, url):
    with pytest.raises(Malformed, match=re.escape(kind.setting)):
        kind.make(url)


def test_a_folder_that_is_not_there_is_named(kind):
    database = kind.make("sqlite:////nowhere/its.db")
    with pytest.raises(Unavailable, match=r"/nowhere/its\.db"):
        database.open()
    database.close()


def test_a_password_is_in_no_message(kind):
    database = kind.make("postgresql+psycopg://me:hush@127.0.0.1:1/x")
    for call in (database.open, lambda: database.read(lambda _: None)):
        with pytest.raises(Unavailable) as refused:
            call()
        assert "hush" not in str(refused.value)
    database.close()


def test_a_server_that_went_is_away_and_one_that_came_back_is_used(kind):
    with running_postgres() as server:
        database = kind.opened(server.new_database())
        database.write(kind.put("m"))
        server.stop()
        with pytest.raises(Unavailable, match=kind.where):
            database.write(kind.put("n"))
        with pytest.raises(Unavailable, match=kind.where):
            kind.count(database)
        server.start()
        database.write(kind.put("n"))
        server.stop()
        server.start()
        database.write(kind.put("o"))  # nobody noticed that it was away
        assert kind.count(database) == 3
        database.close()


@pytest.mark.parametrize(
    ("make", "busy_ms"), [(JobDatabase, 5000), (FleetDatabase, 10_000), (RegistryDatabase, 10_000)]
)
def test_sqlite_waits_for_other_processes_and_its_commits_stand_a_power_cut(
    tmp_path, make, busy_ms
):
    database = make(f"sqlite:///{tmp_path / 'its.db'}")
    database.open()

    def settings(connection):
        names = ("busy_timeout", "journal_mode", "synchronous", "journal_size_limit")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert database.read(settings) == [busy_ms, "wal", 2, 64 * 1024**2]  # 2: FULL
    database.close()


def test_postgresql_waits_for_locks_only_so_long(kind, postgres):
    database = kind.opened(postgres.new_database())

    def settings(connection):
        names = ("lock_timeout", "transaction_isolation")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]

    assert database.read(settings) == ["10s", "repeatable read"]
    assert database.write(settings) == ["10s", "read committed"]
    database.close()


def test_a_value_that_no_database_takes_is_refused_and_not_tried_again(kind, postgres, tmp_path):
    database = kind.opened(postgres.new_database())
    with pytest.raises(Malformed, match="NUL"):
        database.write(kind.put("a\0b"))
    with pytest.raises(Malformed, match="surrogates"):
        database.write(kind.put("a\udcffb"))
    database.close()
    number = sa.text("SELECT :number")
    database = kind.opened(f"sqlite:///{tmp_path / 'its.db'}")
    with pytest.raises(Malformed, match="too large"):
        database.read(lambda connection: connection.execute(number, {"number": 2**63}))
    with pytest.raises(Malformed, match="surrogates"):
        database.write(kind.put("a\udcffb"))
    assert kind.count(database) == 0
    database.close()


def test_a_machine_that_acknowledges_nothing_is_away_after_the_time_that_was_asked_for():
    """The kernel's part of it, over TCP: what its options are, at a real server."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running_postgres(listen_addresses="127.0.0.1", port=str(port)) as server:
        url = f"postgresql+psycopg://{server._user}@127.0.0.1:{port}/postgres"
        database = LearningDatabase(url, 12.0)
        try:
            with database._engine.connect() as connection:
                number = connection.connection.dbapi_connection.pgconn.socket
                with socket.socket(fileno=os.dup(number)) as ours:
                    assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                    found = [
                        ours.getsockopt(socket.IPPROTO_TCP, option)
                        for option in (
                            socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL,
                            socket.TCP_KEEPCNT,
                        )
                    ]  # fmt: skip
        finally:
            database.close()
    assert found == [12_000, 4, 4, 2]
