"""2,000 connected devices without models: good versions reach all, bad ones are stopped at the canary.

The control plane is killed and comes back in each rollout. With real models: `test_fleet.py`.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from cloud.gateway.roles import Role
from simulations.light_devices.behaviour import Behaviour
from simulations.light_devices.device import LightDevice
from tests.brokers import running_broker
from tests.cloud.fleet.light import MODEL, light_devices
from tests.cloud.fleet.servers import FleetProcess

pytestmark = pytest.mark.slow
COUNT, CANARY, LOOK_S, WITHIN_S = 2000, 40, 0.5, 300.0
BAD = {
    "1.2.0": (Behaviour(accuracy=0.93), "accuracy_loss"),  # two points worse
    "1.3.0": (Behaviour(fault="load"), "install_failures"),
    "1.4.0": (Behaviour(fault="golden"), "failures"),  # NaN
    "1.5.0": (Behaviour(latency_ms=5.0), "p95_latency_ms"),  # five times slower, and let in
}
SPEC: dict[str, object] = {
    "group": "all", "seed": "big", "canary": CANARY / COUNT, "waves": [0.3, 1.0],
    "shadow_s": 300.0, "shadow_samples": 2000, "wave_s": 4.0, "watch_s": 4.0, "samples_min": 500,
    "done_samples": 10, "audit_share": 0.5, "silence_s": 60.0,
}  # fmt: skip


@dataclass
class Big:
    fleet: FleetProcess
    devices: list[LightDevice]

    def rollout(self, version: str) -> str:
        subject = {"kind": "model", "model": MODEL, "version": version}
        subject["manifest_sha256"] = version[2] * 64
        path = "/v1/rollouts"
        made = self.fleet.call("POST", path, {**SPEC, "subject": subject}, Role.OPERATOR)
        assert made.status in (200, 201), made.body
        started = self.fleet.call(
            "POST", f"{path}/{made.json['id']}/start", {"comment": ""}, Role.OPERATOR
        )
        assert started.status == 200, started.body
        return str(made.json["id"])

    def until(self, rollout: str, seen: Callable[[Any], bool]) -> Any:
        end = time.monotonic() + WITHIN_S
        while not seen(view := self.fleet.call("GET", f"/v1/rollouts/{rollout}").json):
            assert time.monotonic() < end, view
            time.sleep(LOOK_S)
        return view

    def ended(self, rollout: str) -> Any:
        over = ("succeeded", "rolled_back", "aborted", "paused")
        return self.until(rollout, lambda view: view["status"] in over and not view["undoing"])

    def killed(self) -> None:
        self.fleet.kill()
        self.fleet.start()

    def runs(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for device in self.devices:
            found[device.runs.version] = found.get(device.runs.version, 0) + 1
        return found


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Big]:
    folder = tmp_path_factory.mktemp("big-fleet")
    behaviours = {version: behaviour for version, (behaviour, _) in BAD.items()}
    with (
        running_broker("embedded", folder / "broker") as broker,
        FleetProcess(folder / "fleet", broker) as fleet,
        light_devices(
            broker, COUNT, behaviours, samples_per_s=5.0, interval_s=5.0
        ) as devices,
    ):  # fmt: skip
        big = Big(fleet, devices)
        end = time.monotonic() + WITHIN_S
        while fleet.call("GET", "/v1/fleet").json["online"] < COUNT:
            assert time.monotonic() < end
            time.sleep(LOOK_S)
        yield big


def test_a_good_version_reaches_all_and_bad_ones_stop_at_the_canary(big: Big) -> None:
    rollout = big.rollout("1.1.0")
    for stage in (1, 2, 3):  # the canary, and both waves
        big.until(rollout, lambda view, at=stage: view["stage"] >= at)
        big.killed()
    view = big.ended(rollout)
    assert view["status"] == "succeeded", view
    assert big.runs() == {"1.1.0": COUNT}
    for version, (_, criterion) in BAD.items():
        rollout = big.rollout(version)
        big.killed()
        view = big.ended(rollout)
        assert view["status"] == "rolled_back", view
        assert criterion in view["why"], view
        assert view["phases"]["queued"] >= COUNT - CANARY, view
        assert big.runs() == {"1.1.0": COUNT}
