"""The tables come from the migrations alone, and are what `schema.py` says."""

import multiprocessing
import zipfile
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from cloud.fleet.store import migrate
from cloud.fleet.store.database import FleetDatabase
from cloud.fleet.store.schema import metadata
from shared.errors import Malformed


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fleet.db'}"
    return request.getfixturevalue("postgres").new_database()


def _open(url: str) -> FleetDatabase:
    database = FleetDatabase(url)
    database.open()
    return database


def test_the_migrations_come_to_the_schema(url):
    database = _open(url)

    def differences(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(
            connection,
            opts={"version_table": migrate.VERSION_TABLE, "compare_type": True},
        )
        return list(compare_metadata(context, metadata))

    assert database.read(differences) == []
    database.close()


def test_opening_again_changes_nothing(url):
    database = _open(url)
    query = sa.text(f"SELECT version_num FROM {migrate.VERSION_TABLE}")
    first = database.read(lambda c: c.execute(query).scalars().all())
    database.open()
    assert database.read(lambda c: c.execute(query).scalars().all()) == first
    (newest,) = first
    assert newest == ScriptDirectory.from_config(migrate.config()).get_current_head()
    database.close()


def _open_at_once(url: str, start: Any) -> None:
    start.wait(60)
    database = _open(url)
    assert (
        database.read(lambda c: c.execute(sa.text("SELECT count(*) FROM fleet_events")).scalar())
        == 0
    )
    database.close()


def test_processes_may_open_at_once(url):
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(3)
    openers = [spawn.Process(target=_open_at_once, args=(url, start)) for _ in range(3)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(60)
    assert [opener.exitcode for opener in openers] == [0, 0, 0]


def test_a_database_of_a_newer_program_is_refused_in_words(url):
    database = _open(url)
    newer = sa.text(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '9999'")
    database.write(lambda connection: connection.execute(newer))
    with pytest.raises(
        Malformed, match=r"devices\.url .* revision 9999, written by a newer program"
    ):
        database.open()
    database.close()


def test_a_migration_that_fails_leaves_nothing_half_made(url, tmp_path, monkeypatch):
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text(
        (migrate.files("cloud.fleet.store") / "migrations" / "env.py").read_text()
    )
    (folder / "versions" / "v1.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        "revision, down_revision = '1', None\n"
        "def upgrade():\n"
        "    op.create_table('half', sa.Column('a', sa.Integer))\n"
        "    raise KeyError('power cut')\n"
    )
    whole = migrate.config

    def broken(connection: sa.Connection | None = None) -> Config:
        settings = whole(connection)
        settings.set_main_option("script_location", str(folder))
        return settings

    monkeypatch.setattr(migrate, "config", broken)
    database = FleetDatabase(url)
    with pytest.raises(KeyError, match="power cut"):
        database.open()
    assert database.read(lambda c: sa.inspect(c).get_table_names()) == []
    monkeypatch.undo()
    database.open()
    database.close()


def test_the_migrations_are_in_the_wheel(tmp_path):
    from hatchling.builders.wheel import WheelBuilder  # noqa: PLC0415  slow to import

    (wheel,) = WheelBuilder(".").build(directory=str(tmp_path), versions=["standard"])
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("env.py", "versions/v0001_first.py"):
        assert f"cloud/fleet/store/migrations/{name}" in names
