"""`hybridge-edge run` in a fleet, on both brokers with the rules that are shipped for devices."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared import topics
from shared.fleet.asking import Ask, Told
from shared.fleet.reported import ReportedProfile
from shared.fleet.telemetry import BYTES_MAX, Telemetry
from shared.ids import DeviceId
from tests.brokers import BROKER_KINDS, BrokerKind, Client, running_broker
from tests.edge.fleet.station import profile
from tests.tiny_bundle import write_tiny_bundle

ROOT = str(Path(__file__).parents[3])
DEVICE = DeviceId("cam-1")
ID = "0123456789abcdef"


@pytest.mark.parametrize("kind", BROKER_KINDS)
def test_a_process_takes_a_profile_reports_and_tells(kind: BrokerKind, tmp_path: Path) -> None:
    write_tiny_bundle(tmp_path / "bundle")
    with running_broker(kind, tmp_path / "broker") as broker:
        file = tmp_path / "agent.toml"
        file.write_text(
            f'device_id = "{DEVICE}"\nstate_dir = "state"\nbundle = "bundle"\n'
            f'[uplink]\nurl = "mqtt://{broker.host}:{broker.port}"\n[fleet]\ntelemetry_s = 1\n'
        )
        with Client(broker, "region") as region:
            for topic in (topics.REPORTED, topics.TELEMETRY, topics.TOLD, topics.STATES):
                region.subscribe(topic)
            wanted = profile(3, audit_share=0.5)
            region.publish(topics.desired(DEVICE, "profile"), wanted.to_bytes(), retain=True)
            with subprocess.Popen(
                [sys.executable, "-m", "edge", "run", "--config", str(file)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env=os.environ | {"PYTHONPATH": ROOT},
            ) as agent:  # fmt: skip
                heard: dict[str, bytes] = {}
                while not _taken(heard):
                    message = region.next()
                    heard[message.topic] = bytes(message.payload)
                region.publish(topics.ask(DEVICE), Ask(id=ID, what="logs").to_bytes())
                while topics.told(DEVICE) not in heard or topics.telemetry(DEVICE) not in heard:
                    message = region.next()
                    heard[message.topic] = bytes(message.payload)
                agent.send_signal(signal.SIGTERM)
                _, err = agent.communicate()
            assert agent.returncode == 0, err
            while (message := region.next()).topic != topics.state(DEVICE):
                pass
            assert json.loads(message.payload)["online"] is False
    told = Told.from_bytes(heard[topics.told(DEVICE)], 2**20)
    assert "profile_applied" in [json.loads(line)["event"] for line in told.lines]
    said = Telemetry.from_bytes(heard[topics.telemetry(DEVICE)], BYTES_MAX)
    assert (said.tally.version, said.interval_s) == ("1.0.0", 1.0)


def _taken(heard: dict[str, bytes]) -> bool:
    content = heard.get(topics.reported(DEVICE, "profile"))
    return content is not None and ReportedProfile.from_bytes(content, 2**20).generation == 3
