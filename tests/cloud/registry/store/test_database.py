"""Groups of writes, and a writer that takes too long."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from cloud.registry.store.database import RegistryDatabase
from shared.errors import Malformed, Unavailable

COUNT = sa.text("SELECT count(*) FROM registry_models")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'registry.db'}"
    else:
        url = request.getfixturevalue("postgres").new_database()
    database = RegistryDatabase(url)
    database.open()
    yield database
    database.close()


def _put(name):
    statement = sa.text("INSERT INTO registry_models VALUES (:name, '{}')")
    return lambda connection: connection.execute(statement, {"name": name})


def _count(database):
    return database.read(lambda connection: connection.execute(COUNT).scalar())


def test_writes_that_come_while_one_is_written_go_in_one_commit(database):
    commits = []
    sa.event.listen(database._engine, "commit", commits.append)
    inside, go_on = threading.Event(), threading.Event()

    def slow(connection):
        inside.set()
        assert go_on.wait(30)
        _put("first")(connection)

    with ThreadPoolExecutor(21) as threads:
        first = threads.submit(database.write, slow)
        assert inside.wait(30)
        others = [threads.submit(database.write, _put(f"m{number}")) for number in range(20)]
        while len(database._waiting) < 20:
            threading.Event().wait(0.001)
        go_on.set()
        for write in (first, *others):
            write.result(30)
    assert _count(database) == 21
    assert len(commits) - 1 == 2  # the read of the count commits, too


def test_of_a_group_each_write_stands_or_fails_alone(database):
    database.write(_put("taken"))
    inside, go_on = threading.Event(), threading.Event()

    def slow(_connection):
        inside.set()
        assert go_on.wait(30)

    def refused(connection):
        _put("never")(connection)
        raise Malformed("no such thing")

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(database.write, slow)
        assert inside.wait(30)
        writes = [
            threads.submit(database.write, one) for one in (refused, _put("taken"), _put("m"))
        ]
        while len(database._waiting) < 3:
            threading.Event().wait(0.001)
        go_on.set()
        first.result(30)
        with pytest.raises(Malformed, match="no such thing"):
            writes[0].result(30)
        with pytest.raises(Unavailable, match=r"(?i)unique"):
            writes[1].result(30)
        writes[2].result(30)
    assert _count(database) == 2


def test_a_writer_waits_for_another_process_only_so_long(database, monkeypatch):
    monkeypatch.setattr("cloud.registry.store.database._WAIT_S", 1)
    other = RegistryDatabase(database._engine.url.render_as_string(hide_password=False))
    inside, go_on = threading.Event(), threading.Event()

    def slow(_connection):
        inside.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(database.write, slow)
        assert inside.wait(30)
        with pytest.raises(Unavailable, match=r"lock"):
            other.write(_put("m"))
        go_on.set()
        first.result(30)
    other.write(_put("m"))
    other.close()
