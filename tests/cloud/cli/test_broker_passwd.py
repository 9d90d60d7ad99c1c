"""`hybridge broker passwd`, on its own: where it stands among the commands is broker.py's matter."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from cloud.broker.access.files import read_passwords
from cloud.cli.broker_passwd import passwd
from shared.errors import Malformed, Unknown

ROOT = Path(__file__).parents[3]
app = typer.Typer()
app.command()(passwd)


def run(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "passwords"


def test_a_user_is_added_changed_and_deleted(file: Path) -> None:
    added = run(file, "ann", "--stdin", stdin="first secret\n")
    assert added.exit_code == 0
    assert added.stdout == f"{file}: ann set; SIGHUP makes a running broker read it\n"
    assert read_passwords(file).verify("ann", b"first secret")
    file.write_text("# ours\n" + file.read_text())
    assert run(file, "bob", "--stdin", stdin="x").exit_code == 0
    assert run(file, "ann", "--stdin", stdin="second\r\n").exit_code == 0
    assert read_passwords(file).verify("ann", b"second")
    assert run(file, "bob", "--delete").exit_code == 0
    assert list(read_passwords(file).entries) == ["ann"]
    assert file.read_text().startswith("# ours\nann:")
    assert [one.name for one in file.parent.iterdir()] == ["passwords"]


def test_two_users_with_one_password_look_different(file: Path) -> None:
    for user in ("ann", "bob"):
        run(file, user, "--stdin", stdin="same")
    ann, bob = read_passwords(file).entries.values()
    assert ann.salt != bob.salt
    assert ann.digest != bob.digest


def test_the_password_is_asked_for_twice(file: Path) -> None:
    asked = run(file, "ann", stdin="one\none\n")
    assert asked.exit_code == 0
    assert "one" not in asked.output
    assert read_passwords(file).verify("ann", b"one")
    differs = run(file, "ann", stdin="two\nthree\n")
    assert differs.exit_code == 1
    assert read_passwords(file).verify("ann", b"one")


def test_only_its_owner_may_read_the_file(file: Path) -> None:
    mask = os.umask(0)
    try:
        run(file, "ann", "--stdin", stdin="x")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o666)
        run(file, "bob", "--stdin", stdin="x")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        os.umask(mask)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_root_leaves_the_file_to_the_brokers_user(file: Path) -> None:
    run(file, "ann", "--stdin", stdin="x")
    os.chown(file, 12_345, 12_346)
    run(file, "bob", "--stdin", stdin="x")
    assert (file.stat().st_uid, file.stat().st_gid) == (12_345, 12_346)


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    file.symlink_to(tmp_path / "far" / "real")
    assert run(file, "ann", "--stdin", stdin="x").exit_code == 0
    assert file.is_symlink()
    assert list(read_passwords(tmp_path / "far" / "real").entries) == ["ann"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "error", "says"),
    [
        (["bob", "--delete"], "", Unknown, "no user 'bob'; nothing was changed"),
        (["a:b", "--stdin"], "x\n", Malformed, "holds no ':'"),
        (["bob", "--stdin"], "\n", Malformed, "1 to 65535 bytes"),
        (["bob", "--stdin"], "", Malformed, "1 to 65535 bytes"),
        (["bob", "--stdin"], "x" * 65_536, Malformed, "1 to 65535 bytes"),
    ],
)
def test_what_is_refused_changes_nothing(
    file: Path, arguments: list[str], stdin: str, error: type[Exception], says: str
) -> None:
    run(file, "ann", "--stdin", stdin="x")
    before = file.read_bytes()
    refused = run(file, *arguments, stdin=stdin)
    assert isinstance(refused.exception, error)
    assert says in str(refused.exception)
    assert file.read_bytes() == before
    assert [one.name for one in file.parent.iterdir()] == ["passwords"]


def test_a_broken_file_is_named_and_kept(file: Path) -> None:
    file.write_text("ann:plain\n")
    refused = run(file, "bob", "--stdin", stdin="x")
    assert isinstance(refused.exception, Malformed)
    assert str(refused.exception).startswith(f"{file}, line 1: 'ann': want $scrypt$")
    assert file.read_text() == "ann:plain\n"


def test_a_bad_name_is_refused_before_a_password_is_asked_for(file: Path) -> None:
    refused = run(file, "a:b", stdin="x\nx\n")
    assert isinstance(refused.exception, Malformed)
    assert "Password" not in refused.output


def test_a_full_disk_leaves_the_file_as_it_was(file: Path) -> None:
    run(file, "ann", "--stdin", stdin="x")
    before = file.read_bytes()
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8));"
        "from tests.cloud.cli.test_broker_passwd import app; app()"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(file), "bob", "--stdin"],
        input=b"x", capture_output=True, cwd=ROOT, timeout=60, check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert found.returncode == 1
    assert b"File too large" in found.stderr
    assert file.read_bytes() == before
    assert [one.name for one in file.parent.iterdir()] == ["passwords"]


def test_wrong_usage(file: Path) -> None:
    for arguments in ([file], [file, "ann", "--delete", "--stdin"]):
        assert run(*arguments).exit_code == 2
    assert not file.exists()


def test_two_who_edit_at_once_take_turns(file: Path) -> None:
    """Real processes: neither loses the other's user."""
    script = "from tests.cloud.cli.test_broker_passwd import app; app()"
    users = [f"user-{number}" for number in range(4)]

    def add(user: str) -> None:
        subprocess.run(
            [sys.executable, "-c", script, str(file), user, "--stdin"],
            input=b"x", check=True, capture_output=True, cwd=ROOT, timeout=60,
        )  # fmt: skip

    threads = [threading.Thread(target=add, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_passwords(file).entries) == users
