"""A registry, a worker with its broker, a fleet and agents: real processes, driven from a test."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cloud.fleet.client.client import FleetClient
from cloud.rollouts.documents import RolloutView
from tests.cloud.cli.own_registry import ROOT, OwnRegistry, own_registry

T = TypeVar("T")
LOOK_S = 0.2
START_S = 60.0

_CLOUD = """
state_dir = "cloud"
[[models]]
bundle = "{model}"
[broker]
kind = "embedded"
[api]
port = 0
"""
_FLEET = """
state_dir = "fleet"
[api]
port = {port}
[broker]
url = "{broker}"
[devices]
needs_enrolment = false # the broker of this test is open
[registry]
urls = ["{registry}"]
api_key_file = "viewer.key"
"""
_AGENT = """
device_id = "{name}"
state_dir = "{name}"
bundle = "{factory}"
engine = "{engine}"
log_level = "info"
[uplink]
url = "{broker}"
[fleet]
telemetry_s = 1.0
[updates]
urls = ["{registry}"]
api_key_file = "fetch.key"
root = "{root}"
poll_s = 2.0
backoff_s_max = 2.0
trial_samples = 40
trial_cpu_share = 0.5
latency_ms_max = 500.0 # these devices share two cores; `slower_max` compares with the active version
trial_p95_ms_max = 500.0
proven_s = 2.0
[[sources]]
kind = "replay"
path = "{samples}"
rate_per_s = {rate}
repeat = true
"""


@dataclass
class Process:
    """One of ours, by its ready line."""

    name: str
    arguments: list[str]
    log: Path
    running: "subprocess.Popen[str] | None" = None
    ready: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, "-m", *self.arguments], cwd=ROOT, stdout=subprocess.PIPE,
                stderr=log, text=True,
            )  # fmt: skip

    def until_ready(self) -> None:
        assert self.running is not None
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        assert line, f"{self.name}: {self.log.read_text()[-4000:]}"
        self.ready = json.loads(line)

    def kill(self) -> None:
        if self.running is None:
            return
        self.running.kill()
        self.running.wait(START_S)
        if self.running.stdout is not None:
            self.running.stdout.close()
        self.running = None


@dataclass
class FleetSite:
    folder: Path
    registry: OwnRegistry
    cloud: Process
    fleet: Process
    agents: dict[str, Process]

    @property
    def broker(self) -> str:
        return self.cloud.ready["broker"]

    def restart_fleet(self) -> None:
        """kill -9, and again on the same port."""
        self.fleet.kill()
        self.start_fleet()

    def start_fleet(self) -> None:
        port = self.fleet.ready.get("api", ":0").rsplit(":", 1)[1]
        text = _FLEET.format(port=port, broker=self.broker, registry=self.registry.url)
        (self.folder / "fleet.toml").write_text(text)
        self.fleet.begin()
        self.fleet.until_ready()

    def start_agents(
        self, count: int, *, factory: Path, engine: str, samples: Path, rate: float
    ) -> None:
        root = self.registry.keys / "1.root.json"
        for number in range(count):
            name = f"cam-{number:02}"
            config = self.folder / f"{name}.toml"
            config.write_text(_AGENT.format(
                name=name, factory=factory, engine=engine, broker=self.broker,
                registry=self.registry.url, root=root, samples=samples, rate=rate,
            ))  # fmt: skip
            agent = Process(
                name, ["edge", "run", "--config", str(config)], self.folder / f"{name}.log"
            )
            self.agents[name] = agent
            agent.begin()
        for agent in self.agents.values():
            agent.until_ready()
        end = time.monotonic() + START_S
        while set(self.versions()) != set(self.agents) or "" in self.versions().values():
            assert time.monotonic() < end, self.versions()
            time.sleep(LOOK_S)

    def ask(self, what: Callable[[FleetClient], Awaitable[T]]) -> T:
        async def main() -> T:
            async with FleetClient([self.fleet.ready["api"]]) as client:
                return await what(client)

        return asyncio.run(main())

    def rollout(self, version: str, **spec: object) -> str:
        """Made and started; its id."""

        async def begin(client: FleetClient) -> str:
            subject = {"kind": "model", "model": self.model, "version": version}
            draft = await client.rollouts.create({"subject": subject, "group": "all", **spec})
            await client.rollouts.tell("start", draft.id, "", draft.revision)
            return draft.id

        return self.ask(begin)

    model = "fashion-edge"

    def view(self, rollout: str) -> RolloutView:
        return self.ask(lambda client: client.rollouts.get(rollout))

    def until(
        self, rollout: str, seen: Callable[[RolloutView], bool], within_s: float
    ) -> RolloutView:
        end = time.monotonic() + within_s
        while not seen(view := self.view(rollout)):
            assert time.monotonic() < end, self.why(view)
            time.sleep(LOOK_S)
        return view

    def versions(self) -> Mapping[str, str]:
        """What each device says that it runs."""

        async def all_of_them(client: FleetClient) -> Mapping[str, str]:
            return {
                one.id: one.model.version if one.model else "" for one in await client.devices()
            }

        return self.ask(all_of_them)

    def really_run(self) -> dict[str, str]:
        """What each agent says by its own API: the fleet's word is not taken for it."""
        return {name: _version(agent.ready["api"]) for name, agent in self.agents.items()}

    def why(self, view: RolloutView) -> str:
        tree = view.model_dump(mode="json", exclude={"spec"})
        devices = self.ask(lambda client: client.rollouts.devices(view.id))
        words = [f"{one.device} {one.phase} {one.why}" for one in devices]
        log = (self.folder / "fleet.log").read_text()[-3000:]
        return "\n".join([json.dumps(tree, indent=1), *words, log])


def _version(url: str) -> str:
    import urllib.request  # noqa: PLC0415  here alone

    with urllib.request.urlopen(f"{url}/v1/updates", timeout=START_S) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return str(found["active"]["version"])


@contextlib.contextmanager
def fleet_site(folder: Path, *, cloud_model: Path) -> Iterator[FleetSite]:
    """Registry, worker, broker and fleet up; no agents yet."""
    with own_registry(folder / "registry", evaluates=True) as registry:
        for role in ("viewer", "fetch"):
            (folder / f"{role}.key").write_text((registry.keys / "api" / f"{role}.key").read_text())
        (folder / "cloud.toml").write_text(_CLOUD.format(model=cloud_model))
        cloud = Process(
            "cloud", ["cloud", "serve", "--config", str(folder / "cloud.toml")],
            folder / "cloud.log",
        )  # fmt: skip
        fleet = Process(
            "fleet", ["cloud", "fleet", "--config", str(folder / "fleet.toml")],
            folder / "fleet.log",
        )  # fmt: skip
        site = FleetSite(folder, registry, cloud, fleet, {})
        try:
            cloud.begin()
            cloud.until_ready()
            site.start_fleet()
            yield site
        finally:
            for process in (*site.agents.values(), fleet, cloud):
                process.kill()


def release(registry: OwnRegistry, folder: Path, model: str) -> None:
    """Pushed, evaluated, approved, released."""
    version = json.loads((folder / "manifest.json").read_text())["version"]
    pushed = registry.json("trainer", "model", "push", folder, "--wait")
    assert pushed["state"] == "candidate", pushed
    registry.json("approver", "model", "approve", model, version, "-m", "looks fine")
    registry.json(
        "operator", "model", "release", model, version, "-m", "out", "--sign-with",
        registry.keys / "release.pem",
    )  # fmt: skip


def delegate(registry: OwnRegistry, model: str) -> None:
    registry.json(
        "operator", "registry", "keys", "delegate", model, "--to", registry.keys / "release.pub",
        "--sign-with", registry.keys / "targets.pem",
    )  # fmt: skip
