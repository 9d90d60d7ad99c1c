"""A database that is away, that says no, and whose indexes are used."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from cloud.fleet.store import desired_rows, rollout_rows, settle_rows
from cloud.fleet.store.database import FleetDatabase
from shared.errors import Conflict, InUse, Malformed, Unavailable
from simulations.postgres import running_postgres

COUNT = sa.text("SELECT count(*) FROM fleet_groups")
PUT = sa.text("INSERT INTO fleet_groups VALUES (:name, '{}')")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'fleet.db'}"
    else:
        url = request.getfixturevalue("postgres").new_database()
    database = FleetDatabase(url)
    database.open()
    yield database
    database.close()


def _put(name):
    return lambda connection: connection.execute(PUT, {"name": name})


def _count(database):
    return database.read(lambda connection: connection.execute(COUNT).scalar())


def test_a_change_that_raises_leaves_nothing(database):
    def half(connection):
        _put("g")(connection)
        raise KeyError("power cut")

    with pytest.raises(KeyError):
        database.write(half)
    assert _count(database) == 0


def test_one_process_moves_its_rollouts_and_a_second_is_refused(database):
    other = FleetDatabase(database._engine.url.render_as_string(hide_password=False))
    with database.owned():
        with pytest.raises(InUse, match="another fleet process"), other.owned():
            pass
        assert database.write(_put("g")).rowcount == other.write(_put("h")).rowcount == 1
    with other.owned():
        pass
    other.close()


def test_what_a_change_looked_at_is_still_so_when_it_is_written(database):
    """Two of them on one database are as two processes: nothing is lost, nobody is sent away."""
    other = FleetDatabase(database._engine.url.render_as_string(hide_password=False))
    start = threading.Barrier(2)

    def count_up(mine):
        def change(connection):
            seen = [connection.execute(COUNT).scalar() for _ in range(10)]
            assert len({*seen}) == 1
            _put(f"g{seen[0]}")(connection)

        start.wait(30)
        for _ in range(20):
            mine.write(change)

    try:
        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(count_up, one) for one in (database, other)]:
                done.result(60)
    finally:
        other.close()
    assert _count(database) == 40


def test_a_constraint_that_says_no_is_a_conflict(database):
    database.write(_put("g"))
    with pytest.raises(Conflict, match="the fleet's database does not take it"):
        database.write(_put("g"))
    database.write(_put("h"))
    assert _count(database) == 2


@pytest.mark.parametrize("url", ["", "nonsense", "nosuch://x", "postgresql+nosuch://x"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(Malformed, match=r"devices\.url"):
        FleetDatabase(url)


def test_a_folder_that_is_not_there_is_named():
    database = FleetDatabase("sqlite:////nowhere/fleet.db")
    with pytest.raises(Unavailable, match=r"/nowhere/fleet\.db"):
        database.open()
    database.close()


def test_a_password_is_in_no_message():
    database = FleetDatabase("postgresql+psycopg://me:hush@127.0.0.1:1/x")
    for call in (database.open, lambda: database.read(lambda _: None)):
        with pytest.raises(Unavailable) as refused:
            call()
        assert "hush" not in str(refused.value)
    database.close()


def test_a_server_that_went_is_away_and_one_that_came_back_is_used():
    with running_postgres() as server:
        database = FleetDatabase(server.new_database())
        database.open()
        database.write(_put("m"))
        server.stop()
        with pytest.raises(Unavailable, match="the fleet's database"):
            database.write(_put("n"))
        server.start()
        database.write(_put("n"))
        server.stop()
        server.start()
        database.write(_put("o"))  # nobody noticed that it was away
        assert _count(database) == 3
        database.close()


@pytest.mark.parametrize(
    ("look", "index"),
    [
        (settle_rows.any_unsettled, "fleet_devices_unsettled"),
        (lambda c: desired_rows.unpublished(c, 10), "fleet_desired_unpublished"),
        (lambda c: rollout_rows.holders(c, ["a", "b"]), "fleet_rollout_devices_held_once"),
    ],
)
def test_sqlite_answers_what_is_asked_each_tick_from_a_partial_index(tmp_path, look, index):
    database = FleetDatabase(f"sqlite:///{tmp_path / 'fleet.db'}")
    database.open()
    asked = []
    sa.event.listen(
        database._engine, "before_cursor_execute",
        lambda _c, _cursor, statement, parameters, *_: asked.append((statement, parameters)),
    )  # fmt: skip
    database.read(look)
    statement, parameters = asked[-1]

    def explain(connection):
        found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        return " ".join(str(row) for row in found)

    assert index in database.read(explain)
    database.close()
