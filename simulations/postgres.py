"""A real PostgreSQL for tests and benches, from this machine's binaries: in a folder of its own, on a
unix socket there. Unless it is told to, it does not wait for the disk: no test pulls its plug.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import IO

import psycopg

_READY = "ready to accept connections"
_SETTINGS = {
    "listen_addresses": "", "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
    "shared_buffers": "16MB", "max_connections": "100", "autovacuum": "off",
}  # fmt: skip


class Postgres:
    """A server in `folder`, with `settings` of postgresql.conf. It may be stopped and started."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._user, self._as_user = _unprivileged(folder)
        self._settings = [
            part for name, value in settings.items() for part in ("-c", f"{name}={value}")
        ]
        self._numbers = count(1)
        self._server: subprocess.Popen[str] | None = None
        subprocess.run(  # noqa: S603
            [*self._as_user, _binary("initdb"), "--pgdata", folder / "data", "--username",
             self._user, "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale",
             "C.UTF-8", "--no-instructions"],
            check=True, capture_output=True, cwd=folder,
        )  # fmt: skip

    def start(self) -> None:
        """Returns when it takes connections."""
        self._server = subprocess.Popen(  # noqa: S603
            [*self._as_user, _binary("postgres"), "-D", self._folder / "data", "-k", self._folder,
             *self._settings],
            stderr=subprocess.PIPE, text=True, cwd=self._folder,
        )  # fmt: skip
        _wait_until_ready(self._server)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """In order, though clients are connected; SIGQUIT: at once, and what it held may be gone."""
        if (server := self._server) is None:
            return
        self._server = None
        server.send_signal(how)
        server.wait(30)

    def new_database(self) -> str:
        """The SQLAlchemy URL of one that nobody else uses.

        A schema of its own in one database, which is all that a program sees by this URL, and is
        made in a hundredth of the time.
        """
        name = f"test{next(self._numbers)}"
        conninfo = f"host={self._folder} user={self._user} dbname=postgres"
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return (
            f"postgresql+psycopg://{self._user}@/postgres?host={self._folder}"
            f"&options=-csearch_path%3D{name}"
        )


@contextlib.contextmanager
def running_postgres(**settings: str) -> Iterator[Postgres]:
    """Start a server, with `settings` of postgresql.conf on top of the quick ones, and end it."""
    # not pytest's folder: another user's may not be walked through, and a socket's path is short
    folder = Path(tempfile.mkdtemp(prefix="hybridge-pg-"))
    try:
        server = Postgres(folder, _SETTINGS | settings)
        try:
            server.start()
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # nobody wants what it holds
    finally:
        shutil.rmtree(folder)


def _wait_until_ready(server: subprocess.Popen[str]) -> None:
    assert server.stderr is not None
    said: list[str] = []
    for line in server.stderr:
        said.append(line)
        if _READY in line:
            # somebody must go on reading, or the server stops when the pipe is full
            threading.Thread(target=_read_on, args=(server.stderr,), daemon=True).start()
            return
    raise RuntimeError(f"PostgreSQL did not start: {''.join(said)}")


def _read_on(pipe: IO[str]) -> None:
    with pipe:
        for _ in pipe:
            pass


def _unprivileged(folder: Path) -> tuple[str, list[str]]:
    """A user's name, and what to put before a command so that it runs as that user.

    PostgreSQL refuses to run as root. It goes when this process does, however that ends.
    """
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name, ["setpriv", "--pdeathsig", "QUIT"]
    user = _any_user("postgres", "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return user.pw_name, [
        "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups",
        "--pdeathsig", "QUIT",
    ]  # fmt: skip


def _any_user(*names: str) -> pwd.struct_passwd:
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError(f"none of the users {', '.join(names)} is here to run PostgreSQL")


def _binary(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        # Debian keeps them out of PATH, by version: the newest
        installed = sorted(
            Path("/usr/lib/postgresql").glob(f"*/bin/{name}"),
            key=lambda path: float(path.parent.parent.name),
        )
        if not installed:
            raise RuntimeError(f"there is no {name} here: apt-get install postgresql")
        found = str(installed[-1])
    return found
