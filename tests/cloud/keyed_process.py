"""A real process of ours on a free port, with an API key of each role, for everybody's tests."""

import http.client
import json
import secrets
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from cloud.gateway.api_key import make_key
from cloud.gateway.key_file import KeyLine
from cloud.gateway.roles import Role

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30.0
"""Of every wait; none of them is a pause."""


def until(seen: Callable[[], object]) -> None:
    """Wait for what another process does; each look is a round trip to it."""
    ends = time.monotonic() + DEADLINE_S
    while not seen():
        assert time.monotonic() < ends, "it never came to that"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # by lowercase names
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class KeyedProcess:
    """`python -m cloud NAME` in `folder`: its settings, keys, state and log.

    `settings`: TOML that goes into its configuration; tables must come last in it. `defaults`:
    tables that are there, too, unless `settings` has them. The port is kept over a stop and a
    start. Use it within `with`, or `stop`/`kill` it.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        roles: Sequence[Role],
        settings: str,
        defaults: Mapping[str, str],
        *arguments: str,
    ) -> None:
        self._name, self.folder, self.state_dir = name, folder, folder / "state"
        self.config, self.log = folder / f"{name}.toml", folder / f"{name}.log"
        self.url, self._port, self._arguments = "", 0, arguments
        self.process: subprocess.Popen[str] | None = None
        self._keys: dict[Role, str] = {}
        self.tls: ssl.SSLContext | None = None
        """For `call`, where its settings have the API speak TLS."""
        folder.mkdir(parents=True, exist_ok=True)
        self._make_keys(roles)
        top, _, tables = settings.partition("[")
        given = {"gateway": 'key_file = "api-keys"', **defaults}
        self.config.write_text(
            f'state_dir = "state"\n{top}\n'
            + "".join(
                f"[{table}]\n{lines}\n"
                for table, lines in given.items()
                if f"[{table}]" not in settings
            )
            + (f"[{tables}" if tables else "")
        )

    def _make_keys(self, roles: Sequence[Role]) -> None:
        lines = []
        for role in roles:
            key = make_key(secrets.choice)
            line = KeyLine(
                id=key.id, name=f"a-{role}", roles=(role,), sha256=key.digest.hex(),
                created=datetime.now(UTC),
            )  # fmt: skip
            lines.append(line.model_dump_json(exclude_none=True) + "\n")
            self._keys[role] = key.text
        key_file = self.folder / "api-keys"
        key_file.touch(0o600)
        key_file.write_text("".join(lines))

    def start(self) -> Self:
        """Returns when it answers; fails with its log when it ends instead."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "cloud", self._name, "--config", str(self.config),
                    "--api-port", str(self._port), *self._arguments,
                ],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.kill()
            raise AssertionError(f"the {self._name} ended: {self.log.read_text()}")
        said = json.loads(line)
        assert said["event"] == f"{self._name}_ready"
        self.url = str(said["api"])
        self._port = urlsplit(self.url).port or 0
        return self

    def key(self, role: Role | str) -> str:
        return self._keys[Role(role)]

    def key_file(self, role: Role | str) -> Path:
        """A file that holds the key, as commands read it."""
        path = self.folder / f"key-{Role(role)}"
        path.touch(0o600)
        path.write_text(self.key(role))
        return path

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None:
            self.process.kill()
            self._ended()

    def _ended(self) -> int:
        assert self.process is not None
        code = self.process.wait(DEADLINE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        role: Role | str | None = Role.OPERATOR,
        **headers: str,
    ) -> Reply:
        """One request by the standard library; `body`: bytes, or a document that is sent as JSON."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            fields["Authorization"] = f"Bearer {self.key(role)}"
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        parts = urlsplit(self.url)
        host, within_s = str(parts.hostname), DEADLINE_S
        connection = (
            http.client.HTTPConnection(host, parts.port, timeout=within_s)
            if self.tls is None
            else http.client.HTTPSConnection(host, parts.port, timeout=within_s, context=self.tls)
        )
        try:
            connection.request(method, path, content, fields)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, role: Role | str | None = Role.VIEWER, **headers: str) -> Reply:
        return self.call("GET", path, None, role, **headers)
