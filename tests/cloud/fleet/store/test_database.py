"""A database that has an owner, that says no, and whose indexes are used."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from cloud.fleet.store import desired_rows, rollout_rows, settle_rows
from cloud.fleet.store.database import FleetDatabase
from shared.errors import Conflict, InUse

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
