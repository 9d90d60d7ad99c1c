"""A device's whole life as the pages tell it: by the commands alone, over TLS, with a real agent."""

import json
import os
import shlex
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cloud.cli.own_fleet import HYBRIDGE
from tests.cloud.cli.own_registry import ROOT, Said, hybridge
from tests.end_to_end.fleet_site import LOOK_S, START_S, Process

HOST = "127.0.0.1"
SAMPLES = 40
_CLOUD = 'state_dir = "worker"\n[[models]]\nbundle = "{model}"\n{broker}\n[api]\nport = 0\n'
_AGENT = """
device_id = "cam-7"
state_dir = "state"
bundle = "{bundle}"
[uplink]
url = "{broker}"
[api]
port = 0
[fleet]
telemetry_s = 1.0
[identity]
url = "{fleet}"
"""
_FLEET = """
groups:
  lyon:
    selector: site=lyon
    profile: {{name: routing, version: {version}}}
profiles:
  routing:
    1: {{confidence_min: 2.0}}
    2: {{confidence_min: 0.0, audit_share: 0.0}}  # audits are drawn by chance
devices:
  cam-7: {{labels: {{site: lyon, hw: pi5}}}}
"""


@dataclass
class Lyon:
    folder: Path
    broker: str
    fleet: str

    def run(self, *arguments: str | Path) -> Said:
        """A process: which authorities TLS takes is settled when it starts."""
        at = self.folder / "lyon"
        environment = os.environ | {"SSL_CERT_FILE": str(at / "services-ca" / "certificate.pem")}
        words = (
            HYBRIDGE,
            *arguments,
            "--fleet",
            self.fleet,
            "--key-file",
            at / "keys/operator.key",
        )
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=START_S, check=False
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def found(self, *arguments: str | Path) -> Any:
        """What it prints with -o json; it must have done it."""
        return self.run(*arguments, "-o", "json").json

    def get(self, path: str) -> Any:
        """To look often: a command takes most of a second to start."""
        at = self.folder / "lyon"
        key = (at / "keys" / "operator.key").read_text().strip()
        ask = urllib.request.Request(
            f"{self.fleet}{path}", headers={"authorization": f"Bearer {key}"}
        )
        tls = ssl.create_default_context(cafile=at / "services-ca" / "certificate.pem")
        with urllib.request.urlopen(ask, timeout=START_S, context=tls) as answer:
            return json.loads(answer.read())

    def apply(self, version: int) -> Said:
        file = self.folder / "fleet.yaml"
        file.write_text(_FLEET.format(version=version))
        return self.run("apply", "-f", file, "--yes")


def until(seen: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + START_S
    while not seen():
        assert time.monotonic() < end, what
        time.sleep(LOOK_S)


@pytest.fixture
def lyon(tmp_path: Path) -> Iterator[Lyon]:
    """`hybridge fleet init`, then its worker with the broker, and its fleet, on free ports."""
    at = tmp_path / "lyon"
    made = hybridge("fleet", "init", at, "--name", "lyon", "--host", HOST)
    assert made.code == 0, made.err
    broker = (at / "broker" / "broker.toml").read_text().replace("port = 8883", "port = 0")
    model = ROOT / "models" / "fashion-cloud"
    (tmp_path / "cloud.toml").write_text(_CLOUD.format(model=model, broker=broker))
    worker = Process("worker", ["cloud", "serve", "--config", str(tmp_path / "cloud.toml")],
                     tmp_path / "worker.log")  # fmt: skip
    fleet = Process("fleet", ["cloud", "fleet", "--config", str(at / "fleet.toml")],
                    tmp_path / "fleet.log")  # fmt: skip
    try:
        worker.begin()
        worker.until_ready()
        port = worker.ready["broker"].rsplit(":", 1)[1]
        text = (at / "fleet.toml").read_text()
        for stated, meant in (("8883", port), ("port = 8720", "port = 0"), ("0.0.0.0", HOST)):
            text = text.replace(stated, meant)
        (at / "fleet.toml").write_text(text)
        fleet.begin()
        fleet.until_ready()
        yield Lyon(tmp_path, f"mqtts://{HOST}:{port}", fleet.ready["api"])
    finally:
        fleet.kill()
        worker.kill()


def status(api: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{api}/v1/status", timeout=START_S) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def escalated(api: str) -> int:
    """Of `SAMPLES` new ones, those that the agent sent."""
    before = status(api)["counters"].get("published", 0)
    images = np.load(ROOT / "models" / "fashion-mnist-test-2000.npz")["images"][:SAMPLES]
    for image in images:
        inputs = [{"name": "image", "shape": [1, 28, 28], "datatype": "UINT8",
                   "data": image.reshape(-1).tolist()}]  # fmt: skip
        ask = urllib.request.Request(
            f"{api}/v2/models/fashion-edge/infer",
            json.dumps({"inputs": inputs, "parameters": {"wait": "final"}}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(ask, timeout=START_S) as answer:
            answer.read()
    return int(status(api)["counters"].get("published", 0) - before)


def test_enrolled_seen_told_what_to_do_asked_revoked_gone(lyon: Lyon) -> None:
    folder = lyon.folder / "device"
    folder.mkdir()
    bundle = ROOT / "models" / "fashion-edge"
    config = folder / "agent.toml"
    config.write_text(_AGENT.format(bundle=bundle, broker=lyon.broker, fleet=lyon.fleet))
    ca = lyon.folder / "lyon" / "devices-ca" / "servers.pem"
    said = lyon.run("device", "enrol", "cam-7", "-l", "site=lyon", "--ttl", "1h", "--ca", ca)
    assert said.code == 0, said.err
    program, *arguments = shlex.split(said.out)  # the line that is printed is run as it is
    assert program == "hybridge-edge"
    here = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "edge", *arguments],
        cwd=folder, env=here, capture_output=True, text=True, timeout=START_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    agent = Process("cam-7", ["edge", "run", "--config", str(config)], folder / "agent.log")
    try:
        agent.begin()
        agent.until_ready()
        _live(lyon, agent.ready["api"])
    finally:
        agent.kill()


def _live(lyon: Lyon, api: str) -> None:
    until(lambda: status(api)["link_up"], "no link")
    until(
        lambda: [d["presence"]["online"] for d in lyon.get("/v1/devices")["devices"]] == [True],
        "never online",
    )  # fmt: skip
    (device,) = lyon.found("device", "list", "-l", "site=lyon,device/online=true")
    assert device["inventory"]["certificate_serial"] == device["certificates"][0]["serial"]

    def has(version: int) -> bool:
        said = lyon.get("/v1/devices/cam-7")["profile"]
        return (said["version"], said["applied"]) == (version, True)

    for version, sent in ((1, SAMPLES), (2, 0)):  # while it runs: everything, then nothing
        assert lyon.apply(version).code == 0
        until(lambda version=version: has(version), "profile not applied")  # type: ignore[misc]
        assert escalated(api) == sent
    assert "nothing to do" in lyon.apply(2).err
    logs = lyon.run("device", "logs", "cam-7", "--lines", "20")
    assert logs.out.count("profile_applied") == 2, logs.err

    assert lyon.run("device", "revoke", "cam-7", "-m", "stolen").code == 0
    until(lambda: not status(api)["link_up"], "its link is still up")
    assert escalated(api) == 0  # it answers on by itself
    (device,) = lyon.found("device", "list", "-l", "hw=pi5")
    assert device["revoked_at"] is not None
    assert lyon.run("device", "remove", "cam-7", "-m", "gone").code == 0
    assert lyon.found("device", "list") == []
    assert "het_" not in lyon.run("fleet", "events").out
