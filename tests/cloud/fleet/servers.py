"""A real fleet process on a free port, with keys of each role and a real broker, for everybody."""

import contextlib
import http.client
import json
import secrets
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from cloud.broker.launch import BrokerAddress
from cloud.gateway.api_key import make_key
from cloud.gateway.key_file import KeyLine
from cloud.gateway.roles import Role
from tests.brokers import running_broker
from tests.cloud.registry.servers import DEADLINE_S, ROOT, Reply

ROLES = (Role.VIEWER, Role.APPROVER, Role.OPERATOR)


class FleetProcess:
    """`python -m cloud fleet` in `folder`: its settings, keys, state and log.

    `settings`: TOML that goes into its configuration; tables must come last in it. Devices need no
    enrolment unless it has a table `[devices]`. The port is kept over a stop and a start. Use it
    within `with`, or `stop`/`kill` it.
    """

    def __init__(self, folder: Path, broker: BrokerAddress, settings: str = "") -> None:
        self.folder, self.state_dir, self.broker = folder, folder / "state", broker
        self.config, self.log = folder / "fleet.toml", folder / "fleet.log"
        self.url, self._port = "", 0
        self.process: subprocess.Popen[str] | None = None
        self._keys: dict[Role, str] = {}
        self.tls: ssl.SSLContext | None = None
        """For `call`, where its settings have the API speak TLS."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for role in ROLES:
            key = make_key(secrets.choice)
            line = KeyLine(
                id=key.id, name=f"a-{role}", roles=(role,), sha256=key.digest.hex(),
                created=datetime.now(UTC),
            )  # fmt: skip
            lines.append(line.model_dump_json(exclude_none=True) + "\n")
            self._keys[role] = key.text
        key_file = folder / "api-keys"
        key_file.touch(0o600)
        key_file.write_text("".join(lines))
        top, _, tables = settings.partition("[")
        host, port, _tls = broker.for_owner
        user = f"{broker.username}:{broker.password}@" if broker.username else ""
        self.config.write_text(
            f'state_dir = "state"\n{top}\n'
            + ("" if "[gateway]" in settings else '[gateway]\nkey_file = "api-keys"\n')
            + ("" if "[broker]" in settings else f'[broker]\nurl = "mqtt://{user}{host}:{port}"\n')
            + ("" if "[devices]" in settings else "[devices]\nneeds_enrolment = false\n")
            + ("" if "[driving]" in settings else "[driving]\ntick_s = 0.1\nsettle_s = 0.2\n")
            + ("" if "[ingest]" in settings else "[ingest]\nbatch_s = 0.05\n")
            + (f"[{tables}" if tables else "")
        )

    def start(self) -> Self:
        """Returns when it answers; fails with its log when it ends instead."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "cloud", "fleet", "--config", str(self.config),
                    "--api-port", str(self._port),
                ],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.kill()
            raise AssertionError(f"the fleet ended: {self.log.read_text()}")
        said = json.loads(line)
        assert said["event"] == "fleet_ready"
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


@contextlib.contextmanager
def fleet(folder: Path, settings: str = "") -> Iterator[FleetProcess]:
    """With an embedded broker of its own, until the block ends; then killed."""
    with (
        running_broker("embedded", folder / "broker") as broker,
        FleetProcess(folder, broker, settings) as running,
    ):
        yield running
