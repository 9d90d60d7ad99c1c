"""The tables come from the migrations alone, and are what each package's `schema.py` says."""

import multiprocessing
import re
import zipfile
from importlib.resources import files
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from cloud.store.migrating import Migrations
from shared.errors import Malformed
from tests.cloud.store.databases import KINDS


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'its.db'}"
    return request.getfixturevalue("postgres").new_database()


def test_the_migrations_come_to_the_schema(kind, url):
    database = kind.opened(url)

    def differences(connection: sa.Connection) -> list[Any]:
        context = MigrationContext.configure(
            connection,
            opts={"version_table": kind.migrations.version_table, "compare_type": True},
        )
        return list(compare_metadata(context, kind.metadata))

    assert database.read(differences) == []
    database.close()


def test_opening_again_changes_nothing(kind, url):
    database = kind.opened(url)
    query = sa.text(f"SELECT version_num FROM {kind.migrations.version_table}")
    first = database.read(lambda c: c.execute(query).scalars().all())
    database.open()
    assert database.read(lambda c: c.execute(query).scalars().all()) == first
    (newest,) = first
    assert newest == ScriptDirectory.from_config(kind.migrations.config()).get_current_head()
    database.close()


def _open_at_once(name: str, url: str, start: Any) -> None:
    kind = KINDS[name]
    start.wait(60)
    database = kind.opened(url)
    for table in kind.metadata.tables.values():
        assert database.read(lambda c, t=table: c.execute(sa.select(t)).all()) == []
    database.close()


@pytest.mark.parametrize("name", KINDS)
def test_processes_may_open_at_once(name, url):
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(3)
    openers = [spawn.Process(target=_open_at_once, args=(name, url, start)) for _ in range(3)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(60)
    assert [opener.exitcode for opener in openers] == [0, 0, 0]


def test_a_database_of_a_newer_program_is_refused_in_words(kind, url):
    database = kind.opened(url)
    newer = sa.text(f"UPDATE {kind.migrations.version_table} SET version_num = '9999'")
    database.write(lambda connection: connection.execute(newer))
    said = rf"{re.escape(kind.setting)} .* revision 9999, written by a newer program"
    with pytest.raises(Malformed, match=said):
        database.open()
    database.close()


def test_a_migration_that_fails_leaves_nothing_half_made(kind, url, tmp_path, monkeypatch):
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    env = files(kind.migrations.package) / "migrations" / "env.py"
    (folder / "env.py").write_text(env.read_text())
    (folder / "versions" / "v1.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        "revision, down_revision = '1', None\n"
        "def upgrade():\n"
        "    op.create_table('half', sa.Column('a', sa.Integer))\n"
        "    raise KeyError('power cut')\n"
    )
    whole = Migrations.config

    def broken(self: Migrations, connection: sa.Connection | None = None) -> Config:
        settings = whole(self, connection)
        settings.set_main_option("script_location", str(folder))
        return settings

    monkeypatch.setattr(Migrations, "config", broken)
    database = kind.make(url)
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
    for kind in KINDS.values():
        folder = f"{kind.migrations.package.replace('.', '/')}/migrations"
        assert {f"{folder}/env.py", f"{folder}/versions/v0001_first.py"} <= {*names}
