"""`hybridge job`, on a real database."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cloud.cli.job import job as command
from cloud.jobs.claims import claim, finish
from cloud.jobs.record import Failure
from shared.errors import Unknown
from tests.cloud.jobs.sample import RULES, do, job, opened, put, seen, url_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(url_in(tmp_path)) as database:
        for n in (1, 2, 3):
            put(database, job(n))
        (held,), _ = do(database, lambda t: claim(t, 1, RULES, 1.0))
        do(database, lambda t: finish(t, held, Failure("refused", "Malformed", "no"), RULES, 1.0))
    return tmp_path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_list_shows_counts_and_jobs(folder: Path) -> None:
    text = run("list", "--state-dir", str(folder))
    assert "2 queued" in text
    assert "1 failed (refused)" in text
    assert str(job(3).id) in text
    found = json.loads(run("list", "--state-dir", str(folder), "--limit", "2", "--json"))
    assert [one["id"] for one in found["jobs"]] == [str(job(n).id) for n in (3, 2)]
    assert {"status": "queued", "reason": None, "jobs": 2} in found["counts"]


def test_show_and_cancel(folder: Path) -> None:
    id_ = str(job(2).id)
    where = ("--state-dir", str(folder))
    assert json.loads(run("show", id_, *where))["status"] == "queued"
    assert run("cancel", id_, *where) == f"{id_}: cancelled\n"
    with opened(url_in(folder)) as database:
        assert seen(database, 2).view.state == "cancelled"
    assert run("cancel", id_, "--url", url_in(folder)) == f"{id_}: deleted\n"


def test_what_is_not_there_is_said(folder: Path) -> None:
    for name in ("show", "cancel"):
        with pytest.raises(Unknown):
            run(name, str(job(9).id), "--state-dir", str(folder))
    with pytest.raises(Unknown, match="--state-dir"):
        run("list", "--state-dir", str(folder / "other"))
    assert not (folder / "other").exists()
