"""A worker whose first release has not come leaves the escalations to others."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

from cloud.broker.launch import BrokerAddress
from shared import topics
from shared.ids import DeviceId
from tests.brokers import Client
from tests.cloud.keyed_process import ROOT
from tests.cloud.registry.trust_keys import TrustKeys

NO_SUBSCRIBER = 0x10


def test_it_takes_no_escalations_and_ends_when_told(tmp_path: Path) -> None:
    root = tmp_path / "1.root.json"
    root.write_bytes(TrustKeys(tmp_path / "keys").ceremony.root)
    (tmp_path / "cloud.toml").write_text(
        'state_dir = "state"\nnotice_s = 0\n[broker]\nport = 0\n[api]\nport = 0\n'
        f'[registry]\nurls = ["http://127.0.0.1:1"]\nroot = "{root}"\nmodels = ["tiny-cloud"]\n'
    )
    command = [sys.executable, "-m", "cloud", "serve", "--config", str(tmp_path / "cloud.toml")]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
        ) as worker,
    ):
        try:
            assert worker.stdout is not None
            said = json.loads(worker.stdout.readline() or "{}")
            assert said, (tmp_path / "log").read_text()
            host, port = said["broker"].removeprefix("mqtt://").split(":")
            address = BrokerAddress(host, int(port), cast("asyncio.Future[int]", None))
            with Client(address, "cam-1") as device:
                topic = topics.escalations(DeviceId("cam-1"))
                assert device.publish(topic, b"an escalation").value == NO_SUBSCRIBER
            worker.terminate()
            assert worker.wait(20) == 0
        finally:
            worker.kill()
