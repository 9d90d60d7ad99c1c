"""Push, evaluated, approved, released, on a device and answering: with real processes throughout."""

import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.cli.own_registry import ROOT, OwnRegistry, own_registry
from tests.end_to_end.site import INFER, request
from tests.tiny_bundle import sure_image, write_tiny_bundle

MODEL = "tiny-edge"
WAIT_S = 60.0
_LOOK_S = 0.05
_CONFIG = """
device_id = "gate-7"
state_dir = "state"
bundle = "../factory"
engine = "onnxruntime"

[updates]
urls = ["{url}"]
api_key_file = "{key}"
root = "{root}"
poll_s = 0.3
backoff_s_max = 0.5
agreement_min = 0.0 # the versions of these tests differ on purpose
trial_samples = 20
proven_s = 0.5
"""


class Agent:
    """`python -m edge run` with what it was set up with, and an application that never stops asking."""

    def __init__(self, folder: Path, registry: OwnRegistry) -> None:
        self.folder, self.config = folder, folder / "agent.toml"
        folder.mkdir()
        shutil.copy(registry.keys / "api" / "fetch.key", folder / "registry.key")
        root = registry.keys / "1.root.json"
        self.config.write_text(_CONFIG.format(url=registry.url, key="registry.key", root=root))
        self.answers: list[tuple[str, str]] = []  # version, label
        self.failures: list[str] = []

    @contextmanager
    def running(self) -> Iterator["Agent"]:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "edge", "run", "--config", str(self.config)],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "log").read_text()
        self.url = str(json.loads(line)["api"])
        asking = threading.Event()
        application = threading.Thread(target=self._ask_on, args=(asking,))
        application.start()
        try:
            yield self
        finally:
            asking.set()
            application.join(WAIT_S)
            self.process.kill()
            self.process.wait(WAIT_S)
            self.process.stdout.close()

    def _ask_on(self, stop: threading.Event) -> None:
        body = json.dumps(request(sure_image(0)[None])).encode()
        while not stop.wait(0.005):
            try:
                with urllib.request.urlopen(self.url + INFER, body, timeout=WAIT_S) as answer:
                    found = json.loads(answer.read())
            except (OSError, urllib.error.HTTPError) as error:
                if not stop.is_set():
                    self.failures.append(str(error))
                continue
            outputs = {one["name"]: one["data"][0] for one in found["outputs"]}
            self.answers.append((found["model_version"], outputs["label"]))

    def answered_by(self, version: str) -> str:
        """Wait until that version answers; its label."""
        wait(lambda: bool(self.answers) and self.answers[-1][0] == version, self._why)
        return self.answers[-1][1]

    def command(self, *arguments: str) -> Any:
        """`hybridge-edge updates ...`, as JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "edge", "updates", *arguments, "--config", str(self.config),
             "--json"],
            cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _why(self) -> str:
        log = (self.folder / "log").read_text()
        return f"{self.answers[-3:]} {self.failures[-3:]} {self.command('status')}\n{log[-3000:]}"


def wait(condition: Callable[[], bool], why: Callable[[], str]) -> None:
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until, why()
        time.sleep(_LOOK_S)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRegistry]:
    with own_registry(tmp_path_factory.mktemp("registry") / "made", evaluates=True) as running:
        running.json(
            "operator", "registry", "keys", "delegate", MODEL, "--to", running.keys / "release.pub",
            "--sign-with", running.keys / "targets.pem",
        )  # fmt: skip
        yield running


def release(registry: OwnRegistry, folder: Path) -> None:
    """As people do it: pushed and evaluated, approved, released."""
    version = json.loads((folder / "manifest.json").read_text())["version"]
    pushed = registry.json("trainer", "model", "push", folder, "--wait")
    assert pushed["state"] == "candidate", pushed
    registry.json("approver", "model", "approve", MODEL, version, "-m", "looks fine")
    registry.json(
        "operator", "model", "release", MODEL, version, "-m", "out", "--sign-with",
        registry.keys / "release.pem",
    )  # fmt: skip


def test_a_pushed_version_is_evaluated_released_and_answers_on_the_device(
    registry: OwnRegistry, tmp_path: Path
) -> None:
    write_tiny_bundle(tmp_path / "factory")
    two = write_tiny_bundle(tmp_path / "two", version="2.0.0", shift=1)
    three = write_tiny_bundle(tmp_path / "three", version="3.0.0", shift=2)
    device = Agent(tmp_path / "device", registry)
    with device.running():
        assert device.answered_by("1.0.0") == "class-0"
        release(registry, two)
        assert device.answered_by("2.0.0") == "class-1"
        release(registry, three)
        assert device.answered_by("3.0.0") == "class-2"
        wait(lambda: runs(registry, "3.0.0"), lambda: str(runners(registry)))

        # back at once, to either of the two before, and there it stays
        assert device.command("rollback")["active"]["version"] == "2.0.0"
        assert device.answered_by("2.0.0") == "class-1"
        held = device.command("rollback", "--to", "1.0.0")
        assert held["held_number"] == 2
        assert device.answered_by("1.0.0") == "class-0"
        device.command("resume")
        assert device.answered_by("3.0.0") == "class-2"

        # what an application saw of all that: answers, each of the version that it names
        assert device.failures == []
        labels = {"1.0.0": "class-0", "2.0.0": "class-1", "3.0.0": "class-2"}
        assert {one for one in device.answers if one[1] != labels[one[0]]} == set()
        device.process.kill()
        device.process.wait(WAIT_S)

    registry.process.kill()  # and what was taken is kept, though nobody may be asked
    registry.process.wait(WAIT_S)
    device.answers.clear()
    device.failures.clear()
    with device.running():
        assert device.answered_by("3.0.0") == "class-2"
        assert {version for version, _ in device.answers} == {"3.0.0"}


def runners(registry: OwnRegistry) -> list[dict[str, Any]]:
    key = (registry.keys / "api" / "viewer.key").read_text().strip()
    asked = urllib.request.Request(f"{registry.url}/v1/runners", headers={"X-API-Key": key})
    with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
        found: list[dict[str, Any]] = json.loads(answer.read())["runners"]
    return found


def runs(registry: OwnRegistry, version: str) -> bool:
    return [(one["name"], one["version"]) for one in runners(registry)] == [("gate-7", version)]
