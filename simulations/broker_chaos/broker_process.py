"""A broker process that can be killed and started again on the same port: ours, or Mosquitto."""

import contextlib
import functools
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from cloud.broker.limits import Limits
from cloud.broker.mosquitto import config_text
from shared.errors import Unavailable, Unknown

Kind = Literal["embedded", "mosquitto"]
HOST = "127.0.0.1"
READY_S_MAX = 30.0


def free_port() -> int:
    """Give a port that nobody listens on now."""
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


@functools.cache
def known_options() -> frozenset[str]:
    """Give the options that `python -m cloud.broker` has."""
    command = [sys.executable, "-m", "cloud.broker", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  our own module
    return frozenset(re.findall(r"--[a-z0-9-]+", text))


@dataclass(slots=True)
class BrokerProcess:
    """One broker; `options` are those of `python -m cloud.broker`, without their dashes."""

    kind: Kind
    port: int
    folder: Path
    options: Mapping[str, str]
    module: Sequence[str] = ("cloud.broker",)
    """What `python -m` runs, and its first arguments; a broken broker for the checks' own sake."""
    acl_file: Path | None = None
    password_file: Path | None = None
    starts: int = 0
    ready_s_max: float = 0.0
    process: "subprocess.Popen[str] | None" = None
    rss_bytes_max: int = 0
    _log: IO[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it and wait until it takes connections. Raises `Unavailable` if it does not."""
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._log is None:
            self._log = (self.folder / "broker.log").open("a", encoding="utf-8")
        ours = self.kind == "embedded"
        self.process = subprocess.Popen(  # noqa: S603  our own module, or Mosquitto from PATH
            self._command() if ours else self._mosquitto(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        if ours:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            if not line or json.loads(line).get("event") != "broker_ready":
                raise Unavailable(f"the broker did not start; see {self.folder / 'broker.log'}")
        self._wait_until_it_listens(began + READY_S_MAX)
        self.starts += 1
        self.ready_s_max = max(self.ready_s_max, time.monotonic() - began)

    def kill(self) -> None:
        """Send SIGKILL, and wait for it to be gone."""
        if self.process is not None:
            self.process.kill()
            self._gone(self.process)

    def stop(self) -> None:
        """SIGTERM; kill -9 if it does not end in ten seconds."""
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.kill()
        if self._log is not None:
            self._log.close()
            self._log = None

    def died(self) -> int | None:
        """Give the exit code of a broker that ended by itself."""
        return self.process.poll() if self.process is not None else None

    def complaints(self) -> list[str]:
        """Give the lines of its log that tell of something nobody expected."""
        text = (self.folder / "broker.log").read_text(encoding="utf-8", errors="replace")
        words = ('"level": "error"', '"level": "critical"', "Traceback")
        return [line[:600] for line in text.splitlines() if any(word in line for word in words)]

    def rss_bytes(self) -> int:
        """Sample its resident memory; 0 once it is gone."""
        found = resident_bytes(self.process.pid) if self.process is not None else 0
        self.rss_bytes_max = max(self.rss_bytes_max, found)
        return found

    def _gone(self, process: "subprocess.Popen[str]") -> None:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", *self.module, "--host", HOST, "--port", str(self.port)]
        for name, value in self.options.items():
            if f"--{name}" in known_options():
                command += [f"--{name}", value]
        for name, path in (("acl-file", self.acl_file), ("password-file", self.password_file)):
            if path is not None:
                command += [f"--{name}", str(path)]
        return command

    def _mosquitto(self) -> list[str]:
        program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
        if program is None:
            raise Unknown("mosquitto is not installed: apt-get install mosquitto")
        packet, queued = self.options["packet-bytes-max"], self.options["queued-bytes-max"]
        text = config_text(
            host=HOST, port=self.port, state_dir=self.folder.resolve(), allow_anonymous=True,
            limits=Limits(packet_bytes_max=int(packet), queued_bytes_max=int(queued)),
            run_as=pwd.getpwuid(os.getuid()).pw_name,
        )  # fmt: skip
        text += "autosave_interval 1\n"
        if self.acl_file is not None:
            text += f"acl_file {self.acl_file}\n"
        config = self.folder / "mosquitto.conf"
        config.write_text(text, encoding="utf-8")
        return [program, "-c", str(config)]

    def _wait_until_it_listens(self, deadline: float) -> None:
        while True:
            try:
                socket.create_connection((HOST, self.port), 1).close()
            except OSError as error:
                if time.monotonic() > deadline or self.died() is not None:
                    log = self.folder / "broker.log"
                    raise Unavailable(f"the broker does not listen; see {log}") from error
                time.sleep(0.02)
            else:
                return


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
