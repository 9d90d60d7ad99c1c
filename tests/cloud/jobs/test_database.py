"""What callers read of a database that fails: never a request, a statement or a path."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from cloud.jobs.admission import admit
from cloud.jobs.database import JobDatabase
from shared.errors import Unavailable
from tests.cloud.jobs.sample import RULES, job, opened, url_in

SECRET = b"what somebody sent"


def said(error: BaseException) -> str:
    return str(error)


def test_a_change_that_the_database_refuses(tmp_path: Path) -> None:
    with opened(url_in(tmp_path)) as database:
        new = job(1, body=SECRET)
        first, again = database.write([lambda t: admit(t, new, RULES, 0.0)] * 2)
        assert first.fresh
        assert isinstance(again, Unavailable)
        assert said(again) == "the jobs' database: UNIQUE constraint failed: jobs.id"


def test_a_database_that_is_away(tmp_path: Path) -> None:
    database = JobDatabase(url_in(tmp_path / "missing"))
    with pytest.raises(Unavailable) as refused:
        database.write([lambda t: admit(t, job(1, body=SECRET), RULES, 0.0)])
    assert str(tmp_path) not in said(refused.value)
    database.close()


def test_a_look_that_fails_shows_no_statement(tmp_path: Path) -> None:
    def look(connection: Connection) -> None:
        connection.execute(text("SELECT :secret FROM nowhere"), {"secret": SECRET})

    with opened(url_in(tmp_path)) as database, pytest.raises(Unavailable) as refused:
        database.read(look)
    assert said(refused.value) == "the jobs' database: no such table: nowhere"
