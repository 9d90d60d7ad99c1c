"""The broker and the fleet as processes of their own, on free ports."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_START_S = 30.0
_FLEET = """
[api]
port = 0
[broker]
url = "{broker}"
[devices]
needs_enrolment = false # they have no certificates
[ingest]
per_device_s = 1000.0 # a bench floods on purpose
per_device_burst = 10000
"""


@dataclass(frozen=True, slots=True)
class Standing:
    process: "subprocess.Popen[str]"
    url: str

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)


@contextmanager
def broker(folder: Path) -> Iterator[Standing]:
    """Ours, with a store."""
    arguments = ["cloud.broker", "--port", "0", "--state-dir", str(folder / "broker")]
    with _started(arguments, folder / "broker.log") as (process, ready):
        yield Standing(process, f"mqtt://127.0.0.1:{ready['port']}")


@contextmanager
def fleet(folder: Path, broker_url: str) -> Iterator[Standing]:
    config = folder / "fleet.toml"
    config.write_text('state_dir = "fleet"\n' + _FLEET.format(broker=broker_url))
    arguments = ["cloud", "fleet", "--config", str(config)]
    with _started(arguments, folder / "fleet.log") as (process, ready):
        yield Standing(process, str(ready["api"]))


@contextmanager
def _started(
    arguments: list[str], log: Path
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, object]]]:
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{arguments[0]} did not start: {log.read_text()[-2000:]}")
        yield process, json.loads(line)
    finally:
        process.terminate()
        try:
            process.wait(_START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
