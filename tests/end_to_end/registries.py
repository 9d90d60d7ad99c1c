"""A home with a released model, replicas of it and something like a device, as real processes."""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from cloud.demo.processes import Running, start
from cloud.registry.client.client import RegistryClient
from cloud.registry.client.push import parcel_of, plan, push
from cloud.registry.documents import Gate, Origin
from cloud.registry.trust import edits
from cloud.registry.trust.ceremony import initialise
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.keys import load_signer
from shared.bundle.reader import open_bundle
from tests.end_to_end.namespaces import Network
from tests.tiny_bundle import write_tiny_bundle

MODEL, VERSION = "tiny-edge", "1.0.0"
WAIT_S = 30.0
_LOOK_S = 0.02
_QUICK_HOME = "wait_s = 2.0\npause_s_min = 0.05\npause_s_max = 0.5\nreport_s = 0.5\n"
_QUICK_PEERS = "look_s = 0.3\ntimeout_s = 1.0\n"


async def prepare(folder: Path, network: Network) -> None:
    """Keys, and a home with one evaluated, approved and released version, in `folder`."""
    keys = folder / "keys"
    ceremony = initialise(keys, datetime.now(UTC))
    (ceremony.online / "release.pem").write_bytes((keys / "release.pem").read_bytes())
    (ceremony.online / "release.pem").chmod(0o600)
    bundle = write_tiny_bundle(folder / "bundle")
    sites = Registries(folder, network)
    sites.configure("home", evaluators=1)
    await sites.up("home")
    try:
        async with RegistryClient([network.url("home")]) as home:
            for role, content in (("root", ceremony.root), ("targets", _targets(keys))):
                await home.publish_trust(role, json.loads(content))
            await home.set_model(MODEL, owner="tests", gate=Gate(approval="rule"))
            planned = await plan(home, parcel_of(open_bundle(bundle), bundle))
            await push(home, planned, Origin(), lambda _: None)
            async with asyncio.timeout(WAIT_S):
                while (await home.version(MODEL, VERSION)).state in ("trained", "evaluating"):
                    after = (await home.state()).head.seq
                    await home.log(after, wait_s=5.0)
            await home.launch("release", MODEL, VERSION, "first", None)
    finally:
        await sites.down()


def _targets(keys: Path) -> bytes:
    """The first targets, which give the model to the release key."""
    first = (keys / "1.targets.json").read_bytes()
    release = Holders((load_signer(keys / "release.pem", None).public_key,))
    content = edits.with_delegation(first, {MODEL: release}, datetime.now(UTC), 365)
    metadata = edits.read(content, "targets", "targets")
    metadata.signed.version = 1
    targets = load_signer(keys / "targets.pem", None)
    return edits.sign(metadata.to_bytes(), "targets", [targets])


@dataclass
class Registries:
    """Every process can be cut off, killed and started again with the same arguments and files."""

    folder: Path
    network: Network
    running: dict[str, Running] = field(default_factory=dict)

    def take(self, prepared: Path) -> None:
        """A copy of what `prepare` made."""
        for name in ("keys", "home"):
            shutil.copytree(prepared / name, self.folder / name)

    def configure(
        self,
        name: str,
        *,
        follows: tuple[str, ...] = (),
        peers: tuple[str, ...] = (),
        evaluators: int = 0,
        urls: dict[str, str] | None = None,
    ) -> None:
        """`urls`: other ways to some than the network's own."""
        host, port = self.network.listen(name)
        ways = {other: self.network.url(other, name) for other in {*follows, *peers}} | (urls or {})
        online = "keys/online" if name == "home" else f"{name}-online"
        text = (
            f'name = "{name}"\nstate_dir = "{name}"\n[api]\nhost = "{host}"\nport = {port}\n'
            f'[gateway]\nallow_anonymous = true\n[trust]\nonline_keys = "{online}"\n'
            f"[evaluation]\nprocesses = {evaluators}\npoll_s = 0.1\nlatency_runs = 20\n"
            "latency_rounds = 1\nthroughput_s = 0.05\n[artifacts]\nfree_bytes_min = 1\n"
            f"[peers]\nurls = {json.dumps([ways[peer] for peer in peers])}\n{_QUICK_PEERS}"
        )
        if follows:
            text += (
                f'[home]\nroot = "keys/1.root.json"\nurl = "{self.network.url(name, "device")}"\n'
                f"urls = {json.dumps([ways[one] for one in follows])}\n{_QUICK_HOME}"
            )
        (self.folder / f"{name}.toml").write_text(text)
        (self.folder / online).mkdir(parents=True, exist_ok=True)

    async def up(self, name: str, *more: str) -> None:
        if name == "device":
            self.running[name] = await self._device()
            return
        config = str(self.folder / f"{name}.toml")
        arguments = ("-m", "cloud", "registry", "--config", config, *more)
        arguments = self.network.arguments(name, arguments)
        self.running[name] = await start(name, arguments, self.folder)

    async def _device(self) -> Running:
        here, folder = Path(__file__).with_name("region_device.py"), self.folder / "device"
        folder.mkdir(exist_ok=True)
        root, log = self.folder / "keys/1.root.json", self.folder / "device.log"
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *self.network.arguments("device", (str(here), str(folder), str(root))),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=file,
            )  # fmt: skip
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            ready = json.loads(await process.stdout.readline())
        return Running("device", process, ready, log)

    async def kill(self, name: str) -> None:
        await self.running.pop(name).end(signal.SIGKILL)

    async def end(self, name: str) -> None:
        await self.running.pop(name).end()

    async def down(self) -> None:
        for name in list(self.running):
            with suppress(ProcessLookupError):
                await self.running.pop(name).end(signal.SIGKILL)

    async def operate(self, name: str, *command: str) -> tuple[int, dict[str, Any], str]:
        """`hybridge registry ...` on that registry's machine: exit code, document, other words."""
        arguments = (
            "-m", "cloud.cli", "registry", *command,
            "--config", str(self.folder / f"{name}.toml"), "-o", "json",
        )  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            sys.executable, *self.network.arguments(name, arguments),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(WAIT_S):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, json.loads(out or "{}"), err.decode()

    # Asking

    def client(self, name: str) -> RegistryClient:
        return RegistryClient([self.network.url(name)])

    async def write(self, name: str, *models: str) -> None:
        """Make models there."""
        async with self.client(name) as registry:
            for model in models:
                await registry.set_model(model, owner="tests", gate=None)

    async def state(self, name: str) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{self.network.url(name)}/v1/registry") as response,
        ):
            found: dict[str, Any] = await response.json()
            return found

    async def until(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Look at its state until it is so."""
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    with suppress(aiohttp.ClientError):  # it is being built anew
                        found = await self.state(name)
                        if holds(found):
                            return found
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            words = (self.folder / f"{name}.log").read_text()[-3000:]
            raise AssertionError(f"{name}: not within {WAIT_S} s: {found}\n{words}") from None

    async def caught_up(self, name: str, to: str = "home") -> dict[str, Any]:
        """Until both logs end in the same entry."""
        head = (await self.state(to))["head"]
        return await self.until(name, lambda found: found["head"] == head)

    async def reported(self, replica: str, seq: int) -> None:
        """Until the home was told by the replica that it has this entry."""
        async with self.client("home") as home, asyncio.timeout(WAIT_S):
            while seq not in {  # noqa: ASYNC110  another process's state
                one.seq for one in await home.replicas() if one.name == replica
            }:
                await asyncio.sleep(_LOOK_S)

    async def look(self, *registries: str) -> dict[str, Any]:
        """What the device finds at the first of these that it can trust."""
        process = self.running["device"].process
        assert process.stdin is not None
        assert process.stdout is not None
        urls = [self.network.url(name, "device") for name in registries]
        process.stdin.write(json.dumps({"model": MODEL, "urls": urls}).encode() + b"\n")
        await process.stdin.drain()
        async with asyncio.timeout(WAIT_S):
            found: dict[str, Any] = json.loads(await process.stdout.readline())
        return found

    def logged(self, name: str, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == event]
