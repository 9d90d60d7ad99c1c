"""`hybridge key`, on its own: where it stands among the commands is the main command's matter."""

import json
import secrets
import stat
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cloud.cli.key import key
from cloud.cli.replacing import replace_text
from cloud.gateway.api_key import make_key, read_key
from cloud.gateway.guarded_file import read_guarded
from cloud.gateway.key_file import KeyLine, with_key
from cloud.gateway.roles import Role
from cloud.gateway.trusted import read_keys
from shared.errors import Malformed, NotTrusted, Unknown


def run(*arguments: object) -> Result:
    return CliRunner().invoke(key, [str(one) for one in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def test_a_key_is_shown_once_kept_as_a_digest_and_removed(file: Path) -> None:
    added = run("add", file, "line-3", "--role", "infer", "--role", "observe", "--rate", "9/second")
    assert added.exit_code == 0
    made = read_key(added.stdout.strip())  # nothing else on stdout: scripts take it from there
    assert f"key {made.id} of line-3 added; it is not shown again" in added.stderr
    assert made.text not in added.stderr
    assert made.text[-49:] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = read_keys(file)[made.id]
    assert made.matches(kept.digest)
    assert (kept.name, kept.roles, kept.rate) == ("line-3", (Role.INFER, Role.OBSERVE), "9/second")
    assert kept.expires is None

    listed = run("list", file)
    for word in (made.id, "line-3", "infer observe", "9/second", "never"):
        assert word in listed.stdout
    assert kept.sha256 not in listed.stdout

    removed = run("remove", file, "line-3")
    assert removed.stdout.startswith(f"{file}: key {made.id} of line-3 removed; SIGHUP")
    assert not read_keys(file)
    assert run("list", file).stdout == "None.\n"
    assert [one.name for one in file.parent.iterdir()] == ["keys.jsonl"]


def test_a_list_for_programs_holds_no_digest(file: Path) -> None:
    run("add", file, "a", "--role", "jobs", "--days", 1, "--in-hand-max", 3)
    (one,) = json.loads(run("list", file, "--json").stdout)
    assert (one["name"], one["roles"], one["in_hand_max"]) == ("a", ["jobs"], 3)
    assert one["expires"].endswith("Z")
    assert "sha256" not in one


def test_a_key_ends_when_it_is_said_to(file: Path) -> None:
    run("add", file, "a", "--role", "infer", "--expires", "2999-01-02")
    assert "2999-01-02 00:00 UTC" in run("list", file).stdout
    over = run("add", file, "b", "--role", "infer", "--expires", "2001-01-01")
    assert over.exit_code == 2
    assert "is over" in over.stderr
    both = run("add", file, "b", "--role", "infer", "--expires", "2999-01-01", "--days", 1)
    assert both.exit_code == 2
    assert [one.name for one in read_keys(file).values()] == ["a"]


def test_what_does_not_fit_is_refused_and_nothing_written(file: Path) -> None:
    for arguments, why in (
        (("a b", "--role", "infer"), "name"),
        (("a", "--role", "infer", "--rate", "fast"), "rate"),
    ):
        refused = run("add", file, *arguments)
        assert isinstance(refused.exception, Malformed)
        assert why in str(refused.exception)
    assert run("add", file, "a").exit_code == 2  # a role must be said
    assert run("add", file, "a", "--role", "root").exit_code == 2
    assert not file.exists()


def test_a_file_that_others_may_write_is_not_added_to(file: Path) -> None:
    run("add", file, "a", "--role", "infer")
    before = file.read_text()
    file.chmod(0o666)
    assert isinstance(run("add", file, "b", "--role", "infer").exception, NotTrusted)
    assert isinstance(run("remove", file, "a").exception, NotTrusted)
    assert isinstance(run("list", file).exception, NotTrusted)
    assert file.read_text() == before


def test_a_file_with_a_mistake_stays_as_it_is(file: Path) -> None:
    file.write_text("{}\n")
    file.chmod(0o600)
    assert isinstance(run("add", file, "b", "--role", "infer").exception, Malformed)
    assert file.read_text() == "{}\n"
    assert isinstance(run("remove", file.parent / "none", "a").exception, Unknown)


def test_several_who_edit_at_once_all_get_in(file: Path) -> None:
    def add(name: str) -> None:
        made = make_key(secrets.choice)
        line = KeyLine(id=made.id, name=name, roles=(Role.INFER,), sha256=made.digest.hex())
        replace_text(file, read_guarded, lambda text: with_key(text, line, name))

    threads = [threading.Thread(target=add, args=(f"n{n}",)) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert {one.name for one in read_keys(file).values()} == {f"n{n}" for n in range(8)}


def test_a_link_stays_a_link(file: Path) -> None:
    (file.parent / "link").symlink_to(file)
    assert run("add", file.parent / "link", "a", "--role", "infer").exit_code == 0
    assert (file.parent / "link").is_symlink()
    assert len(read_keys(file)) == 1
