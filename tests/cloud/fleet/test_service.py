"""The fleet's process: killed and restarted, over a broker that forgets, among devices that misbehave."""

import concurrent.futures
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cloud.fleet.config import load, parse
from shared.errors import Malformed
from shared.fleet.desired import DesiredModel
from shared.topics import desired
from simulations.light_devices.behaviour import Behaviour
from tests.brokers import Client, running_broker
from tests.cloud.fleet.light import MODEL, NEW, OLD, light_devices
from tests.cloud.fleet.servers import FleetProcess, fleet
from tests.cloud.keyed_process import ROOT, until

SPEC: dict[str, Any] = {
    "subject": {
        "kind": "model", "model": MODEL, "version": NEW.version,
        "manifest_sha256": NEW.manifest_sha256,
    },
    "group": "all", "shadow_s": 0, "canary": 0.3, "waves": [0.6, 1.0], "wave_s": 0.5, "watch_s": 0.5,
    "samples_min": 10, "done_samples": 5, "criteria": ["golden_failures <= 0"],
}  # fmt: skip


def started(process: FleetProcess, **more: object) -> str:
    made = process.call("POST", "/v1/rollouts", SPEC | more)
    assert made.status == 201, made.body
    name = str(made.json["id"])
    assert process.call("POST", f"/v1/rollouts/{name}/start", {}).status == 200
    return name


def online(process: FleetProcess, count: int) -> None:
    until(lambda: process.get("/v1/fleet").json["online"] == count)


def view(process: FleetProcess, name: str) -> dict[str, Any]:
    return dict(process.get(f"/v1/rollouts/{name}").json)


def test_killed_in_the_middle_it_goes_on_and_moves_each_device_once(tmp_path: Path) -> None:
    with fleet(tmp_path) as process, light_devices(process.broker, 6) as devices:
        online(process, 6)
        name = started(process)
        until(lambda: view(process, name)["stage"] >= 1)
        process.kill()
        process.start()
        until(lambda: view(process, name)["status"] == "succeeded")
        assert {device.runs for device in devices} == {NEW}
        until(lambda: all(device.done == 2 for device in devices))  # its order, then its baseline's
        assert process.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize("is_good", [True, False])
def test_killed_again_and_again_it_comes_to_the_same(tmp_path: Path, *, is_good: bool) -> None:
    behaviours = {} if is_good else {NEW.version: Behaviour(fault="golden")}
    with fleet(tmp_path) as process, light_devices(process.broker, 8, behaviours) as devices:
        online(process, 8)
        name = started(process, wave_s=2, watch_s=2)
        for _ in range(8):
            process.kill()  # as soon as it answers
            process.start()
        until(lambda: view(process, name)["status"] == ("succeeded" if is_good else "rolled_back"))
        assert {device.runs for device in devices} == {NEW if is_good else OLD}


@pytest.mark.slow
def test_a_broker_that_lost_its_memory_is_told_everything_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = f'[broker]\nurl = "mqtt://127.0.0.1:{port}"\nbackoff_s_max = 0.2\n'
    with running_broker("embedded", tmp_path / "first", port=port) as broker:
        process = FleetProcess(tmp_path / "fleet", broker, settings).start()
        try:
            with light_devices(broker, 1):
                online(process, 1)
                baseline = {"version": NEW.version, "manifest_sha256": NEW.manifest_sha256}
                process.call("PUT", f"/v1/groups/all/baseline/{MODEL}", baseline)
                until(lambda: process.get("/v1/devices/d0000").json["model"]["version"] == "1.1.0")
                until(lambda: not process.get("/v1/fleet").json["unpublished"])
        except BaseException:
            process.kill()
            raise
    with (
        process_ends(process),
        running_broker("embedded", tmp_path / "second", port=port) as broker,
    ):
        client = Client(broker, "d0000")
        client.subscribe(desired("d0000", "model"))  # type: ignore[arg-type]  # a device id
        again = DesiredModel.model_validate_json(client.next().payload)
        assert again.version == NEW.version
        client.disconnect()


class process_ends:  # noqa: N801  reads as what it does
    def __init__(self, process: FleetProcess) -> None:
        self._process = process

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._process.kill()


def counted(process: FleetProcess, name: str) -> float:
    lines = process.get("/metrics").body.decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith(f"hybridge_fleet_{name} ")
    )


def test_what_devices_send_ends_nothing_and_is_counted(tmp_path: Path) -> None:
    settings = "[ingest]\nbatch_s = 0.05\nper_device_s = 5.0\nper_device_burst = 5\n"
    with fleet(tmp_path, settings) as process, Client(process.broker, "evil") as evil:
        until(lambda: process.get("/healthz").json["broker"])
        for payload in (b"", b"\xff", b"{", b"null", b"[" * 900, b"x" * 20_000):
            for kind in ("state", "tel", "reported/model", "reported/profile", "reported/secrets"):
                evil.publish(f"hy/v1/evil/up/{kind}", payload)
        for number in range(300):
            evil.publish("hy/v1/evil/up/tel", b"%d" % number)
        evil.publish("hy/v1/evil/up/told", b'{"id": "0123456789abcdef", "lines": []}')
        until(lambda: counted(process, 'messages_refused_total{reason="unasked"}') >= 1)
        for reason in ("malformed", "topic", "superseded"):
            assert counted(process, f'messages_refused_total{{reason="{reason}"}}') >= 1, reason
        with light_devices(process.broker, 2):
            online(process, 2)  # others are heard all the same
        assert process.log.read_text().count("message_refused") < 20
        is_refused_a_second_process(process)
        answers_who_waits_and_ends(process)


def is_refused_a_second_process(process: FleetProcess) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "cloud", "fleet", "--config", str(process.config)],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert "another fleet process" in second.stderr


def answers_who_waits_and_ends(process: FleetProcess) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        head = process.get("/v1/fleet").json["head"]
        waits = pool.submit(process.get, f"/v1/events?after={head}&wait_s=50")
        until(lambda: b"hybridge_http_connections 2.0" in process.get("/metrics").body)
        assert process.stop() == 0
        assert waits.result(5).json["events"] == []


@pytest.mark.slow
def test_a_stranger_is_nobody_where_devices_are_enrolled(tmp_path: Path) -> None:
    with (
        fleet(tmp_path, "[devices]\nneeds_enrolment = true\n") as process,
        light_devices(process.broker, 1),
    ):
        refused = 'messages_refused_total{reason="unknown_device"}'
        until(lambda: counted(process, refused) >= 3)
        assert process.get("/v1/devices").json["devices"] == []
        assert process.log.read_text().count("device_refused") == 1


def test_wrong_settings_are_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text('[api]\nport = 99999\n[broker]\nurl = "http://x"\n')
    ended = subprocess.run(
        [sys.executable, "-m", "cloud", "fleet", "--config", str(tmp_path / "fleet.toml")],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "api.port" in ended.stderr
    assert "broker url" in ended.stderr


def test_the_settings_that_are_shipped_load_and_their_paths_count_from_their_folder() -> None:
    path = ROOT / "firmware_configs" / "fleet.toml"
    config = load(path, {"api": {"port": 0}})
    assert config.state_dir == path.parent / "../runs/fleet"
    assert (config.api.port, config.api.host) == (0, "127.0.0.1")
    assert config.store_url.endswith("runs/fleet/fleet.db")


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"api": {"host": "0.0.0.0"}}, "gateway.key_file"),
        ({"api": {"tls_cert": "a"}}, "tls_key"),
        ({"api": {"devices_ca": "a"}}, "devices_ca"),
        ({"broker": {"tls_cert": "a"}}, "tls_key"),
        ({"colour": "red"}, "colour"),
        ({"registry": {"urls": ["ftp://x"]}}, "ftp"),
        ({"identity": {"ca": "a", "grace_days": 500}}, "certificates_kept_s"),
    ],
)
def test_settings_that_do_not_fit_together(tree: dict[str, object], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        parse(tree, "x")
