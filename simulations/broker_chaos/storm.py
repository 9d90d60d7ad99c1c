"""The storm: start everything, kill at random, heal, drain; then the checks may speak."""

import asyncio
import base64
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from shared.errors import Disconnected, Unavailable
from simulations.broker_chaos.broker_process import BrokerProcess, Kind, free_port
from simulations.broker_chaos.checks import CHECKS, FRESH, Verdict
from simulations.broker_chaos.guests import Guests
from simulations.broker_chaos.history import History
from simulations.broker_chaos.journal import Event, Journal, Saw, Tail, now
from simulations.broker_chaos.link import Gone
from simulations.broker_chaos.losses import Losses, counted_losses
from simulations.broker_chaos.plan import PASSWORD, READERS, Plan, acl_text, users

PROGRESS_S: Final = 10.0
SAMPLE_S: Final = 0.25
RSS_BYTES_MAX: Final = 256 << 20
"""40 MB of interpreter, the 64 MB that may be queued in all, and what Python holds beside them:
a message of 200 bytes costs about 1 KB, so three times its count."""
# A queue holds what comes in 20 s, longer than a reader that keeps up is ever away; a slow one's
# 32 KB messages fill it in 3 s.
OPTIONS: Final[Mapping[str, str]] = {
    "packet-bytes-max": "262144", "queued-bytes-max": "4000000",
    "queued-bytes-max-total": str(64 << 20), "connects-per-s-max": "1000",
    "subscribes-per-s-max": "1000", "sys-interval-s": "5",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weather:
    """What the storm does; every part can be switched off."""

    seconds: float = 600.0
    kind: Kind = "embedded"
    broker_kill_s: float = 30.0
    """Mean time between kills of the broker; 0: none."""
    client_kill_s: float = 20.0
    """Mean time between kills of a client process; 0: none."""
    state: bool = True
    """Give the broker a state directory."""
    synchronous: str = "full"
    module: tuple[str, ...] = ("cloud.broker",)
    """What `python -m` runs as the broker."""
    drain_s_max: float = 90.0
    """From the last kill until everything owed has come, on a machine that is busy."""


@dataclass(slots=True)
class Result:
    """What came of it."""

    verdicts: list[Verdict] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)


class Storm:
    """One run in one folder."""

    def __init__(self, plan: Plan, weather: Weather) -> None:
        """Write what broker and clients need into the plan's folder."""
        self._plan, self._weather = plan, weather
        self._rng = Random(plan.seed)
        self._folder = Path(plan.folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        plan.save(self._folder / "plan.json")
        options = dict(OPTIONS)
        if weather.state:
            options["state-dir"] = str(self._folder / "state")
            options["synchronous"] = weather.synchronous
        if plan.passwords:
            options["allow-anonymous"] = "no"
        self._broker = BrokerProcess(
            weather.kind, plan.port, self._folder / "broker", options, weather.module,
            acl_file=self._write("acl", acl_text()) if plan.acl else None,
            password_file=self._write("passwords", _passwords()) if plan.passwords else None,
        )  # fmt: skip
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._not_ready: set[str] = set()
        """Processes that have not said that their signal handlers stand."""
        self._tails: dict[str, Tail] = {}
        self._journal = Journal(plan.journal("storm"))
        self._own: list[str] = []
        """Violations that the storm itself sees."""
        self.history = History()
        self._kills = {"broker": 0, "clients": 0}
        self._losses = Losses()

    def run(self) -> Result:
        """Storm, heal, drain, judge."""
        self._broker.start()
        try:
            for name in READERS:
                self._start(name)
            for name in READERS:
                self._wait_ready(name)
            for name in ("publishers", "guests"):
                self._start(name)
            self._storm()
            self._heal()
        finally:
            for worker in self._workers.values():
                _end(worker)
            self._broker.stop()
            self._journal.close()
        self._gather()
        return self._judge()

    def _write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path.resolve()

    def _start(self, name: str) -> None:
        command = [sys.executable, "-m", "simulations.broker_chaos.worker", name,
                   str(self._folder / "plan.json")]  # fmt: skip
        self._workers[name] = subprocess.Popen(  # noqa: S603  our own module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._not_ready.add(name)
        self._tails.setdefault(name, Tail(self._plan.journal(name)))

    def _wait_ready(self, name: str) -> None:
        stdout = self._workers[name].stdout
        assert stdout is not None
        if stdout.readline() != "ready\n":
            raise Unavailable(f"client process {name} did not start")
        self._not_ready.discard(name)

    def _storm(self) -> None:
        rng, weather = self._rng, self._weather
        began = time.monotonic()
        next_progress = began + PROGRESS_S
        kill_broker = began + _about(rng, weather.broker_kill_s)
        kill_client = began + _about(rng, weather.client_kill_s)
        start_client: dict[str, float] = {}
        while (at := time.monotonic()) < began + weather.seconds:
            self._look()
            if at >= kill_broker:
                self._kill_broker(rng.uniform(0.1, 2.0))
                kill_broker = time.monotonic() + _about(rng, weather.broker_kill_s)
            if at >= kill_client and not start_client:
                name = rng.choice(sorted(READERS))
                self._kill_client(name)
                start_client[name] = at + rng.uniform(0.2, 4.0)
                kill_client = at + _about(rng, weather.client_kill_s)
            for name in [one for one, due in start_client.items() if due <= at]:
                del start_client[name]
                self._start(name)
            if at >= next_progress:
                next_progress += PROGRESS_S
                self._progress(at - began)
            time.sleep(SAMPLE_S)
        for name in start_client:
            self._start(name)

    def _look(self) -> None:
        """Sample memory; nobody but us may end anything."""
        rss = self._broker.rss_bytes()
        if rss > RSS_BYTES_MAX:
            self._own.append(f"the broker holds {rss / 1e6:.0f} MB at {now() / 1e9:.3f} s")
        code = self._broker.died()
        if code is not None:
            self._own.append(f"the broker ended by itself with code {code}")
            self._broker.kill()
            self._broker.start()
        for name, worker in self._workers.items():
            if worker.poll() not in (None, -signal.SIGKILL):
                raise Unavailable(f"client process {name} ended with code {worker.poll()}")

    def _kill_broker(self, down_s: float) -> None:
        self._broker.kill()
        self._journal.write(Event(Saw.KILLED, now(), "broker"))
        self._kills["broker"] += 1
        time.sleep(down_s)
        self._broker.start()
        self._losses = Losses(since=now())

    def _kill_client(self, name: str) -> None:
        _end(self._workers[name])
        self._journal.write(Event(Saw.KILLED, now(), name))
        self._kills["clients"] += 1

    def _gather(self) -> None:
        for tail in self._tails.values():
            self.history.add(tail.read())

    def _progress(self, seconds: float) -> None:
        self._gather()
        history = self.history
        delivered = sum(len(events) for events in history.received.values())
        print(f"{seconds:5.0f} s: {len(history.acked):,} acknowledged, {delivered:,} delivered, "
              f"{self._kills['broker']} kills of the broker, {self._kills['clients']} of client "
              f"processes, broker {self._broker.rss_bytes() / 1e6:.0f} MB", flush=True)  # fmt: skip

    def _heal(self) -> None:
        """Break nothing more: publishers finish, readers come back and get what is owed."""
        drain_s = self._weather.drain_s_max
        _end(self._workers.pop("guests"))
        began = time.monotonic()
        for name in READERS:
            if name in self._not_ready:
                self._wait_ready(name)
            self._workers[name].send_signal(signal.SIGUSR1)
        self._wait_ready("publishers")
        publishers = self._workers["publishers"]
        publishers.send_signal(signal.SIGTERM)
        try:
            publishers.wait(drain_s)
        except subprocess.TimeoutExpired:
            self._own.append(f"publishers still wait after {drain_s:.0f} s of calm")
        while True:
            self._gather()
            owed = self.history.missing()
            if not owed:
                break
            if time.monotonic() > began + drain_s:
                self._own.append(f"{owed} deliveries are owed after {drain_s:.0f} s of calm")
                break
            time.sleep(SAMPLE_S)
        print(f"healed in {time.monotonic() - began:.1f} s", flush=True)
        asyncio.run(self._fresh_reader())
        if self._weather.kind == "embedded" and self._weather.state:
            try:
                self._losses.counted = counted_losses(self._folder / "state")
            except Disconnected as error:  # it may have ended since the last look
                self._own.append(f"the broker does not say what it dropped: {error}")
                self._look()
        self._broker.rss_bytes()

    async def _fresh_reader(self) -> None:
        """Subscribe anew to what is retained, and read for a moment."""
        journal = Journal(self._plan.journal("fresh"))
        self._tails["fresh"] = Tail(self._plan.journal("fresh"))
        try:
            async with asyncio.timeout(3):
                await Guests(self._plan, journal).read_once(FRESH, "guest")
        except (TimeoutError, Gone):
            pass
        finally:
            journal.close()

    def _judge(self) -> Result:
        history, broker = self.history, self._broker
        self.history.add(Tail(self._plan.journal("storm")).read())
        verdicts = [check(history) for check in CHECKS]
        verdicts.append(self._losses.verdict(history))
        own = Verdict("broker: never ended, bounded memory, all drained", broker.starts, self._own)
        own.note = f"{broker.rss_bytes_max / 1e6:.0f} of {RSS_BYTES_MAX / 1e6:.0f} MB"
        if self._weather.kind == "embedded":
            own.wrong += [f"its log: {one}" for one in broker.complaints()]
        verdicts.append(own)
        figures = {
            "acknowledged": len(history.acked),
            "delivered": sum(len(events) for events in history.received.values()),
            "broker_kills": self._kills["broker"], "client_kills": self._kills["clients"],
            "rss_bytes_max": broker.rss_bytes_max, "ready_s_max": broker.ready_s_max,
            "refused_0x97": sum(event.code == 0x97 for event in history.acked.values()),
        }  # fmt: skip
        return Result(verdicts, figures)


def _about(rng: Random, mean_s: float) -> float:
    return rng.uniform(mean_s * 2 / 3, mean_s * 4 / 3) if mean_s else float("inf")


def _passwords() -> str:
    """A password file at the least cost that the broker takes: a storm connects all the time."""
    out = []
    for user in users():
        salt = user.encode().ljust(16, b".")
        digest = hashlib.scrypt(PASSWORD.format(user).encode(), salt=salt, n=1 << 10, r=8, p=1,
                                dklen=32)  # fmt: skip
        kept = "$".join(base64.b64encode(one).decode().rstrip("=") for one in (salt, digest))
        out.append(f"{user}:$scrypt$ln=10,r=8,p=1${kept}\n")
    return "".join(out)


def _end(worker: "subprocess.Popen[str]") -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


__all__ = ["Result", "Storm", "Weather", "free_port"]
