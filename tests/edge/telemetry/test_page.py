"""docs/telemetry.md: its examples read what a device sends."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.broker.launch import BrokerAddress
from edge.routing.settings import Novelty
from shared import topics
from shared.fleet.telemetry import LATENCY_EDGES_MS
from shared.ids import DeviceId
from tests.brokers import TIMEOUT_S, Client, running_broker
from tests.edge.telemetry.test_report import USUAL_BYTES, WORST_BYTES, usual

PAGE = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text()
REPORT = json.loads(usual().to_bytes())


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    with running_broker("embedded", tmp_path_factory.mktemp("broker")) as address:
        yield address


def found(path: str, tree: Any = REPORT) -> Any:
    """As json_v2 takes it (GJSON): members and indices, with dots between."""
    for name in path.split("."):
        tree = tree[int(name)] if isinstance(tree, list) else tree[name]
    return tree


def test_telegrafs_paths_lead_to_members_of_the_right_type() -> None:
    (consumer,) = tomllib.loads(blocks("toml")[2])["inputs"]["mqtt_consumer"]
    device = DeviceId("cam-1")
    (topic,) = consumer["topics"]
    (parsing,) = consumer["topic_parsing"]
    assert topic == parsing["topic"] == topics.TELEMETRY
    place = parsing["tags"].split("/").index("device")
    assert topics.telemetry(device).split("/")[place] == device
    assert len(parsing["tags"].split("/")) == len(topic.split("/"))
    (its,) = consumer["json_v2"]
    assert isinstance(found(its["timestamp_path"]), float)
    for tag in its["tag"]:
        assert isinstance(found(tag["path"]), str | int)
    for field in its["field"]:
        assert isinstance(found(field["path"]), {"int": int, "string": str}[field["type"]])
    (losses,) = its["object"]
    assert isinstance(found(losses["path"]), dict)


def test_what_the_page_says_of_bins_and_sizes_is_so() -> None:
    assert tuple(round(0.05 * 2 ** (i / 2), 6) for i in range(31)) == LATENCY_EDGES_MS
    assert f"{USUAL_BYTES:,} bytes at most" in PAGE
    assert f"has {WORST_BYTES:,}." in PAGE


def test_the_settings_of_novelty_on_the_page_are_the_defaults() -> None:
    said = tomllib.loads(blocks("toml")[1])["routing"]["novelty"]
    assert said == Novelty().model_dump()


@pytest.mark.parametrize("which", [0, 1])
def test_mosquitto_sub_reads_it(broker: BrokerAddress, which: int) -> None:
    if shutil.which("mosquitto_sub") is None or shutil.which("jq") is None:
        pytest.skip("needs mosquitto_sub and jq: apt-get install mosquitto-clients jq")
    command = blocks("sh")[which].strip()
    command = command.replace("-p 1883", f"-p {broker.port} -C 1").replace("127.0.0.1", broker.host)
    topic = topics.telemetry(DeviceId("cam-1"))
    with Client(broker, "cam-1") as device:
        device.publish(topic, usual().to_bytes(), retain=True)
        ran = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        device.publish(topic, b"", retain=True)
    if which == 0:
        said, _, payload = ran.stdout.partition(" ")
        assert (said, json.loads(payload)) == (topic, REPORT)
        assert "hy/v1/+/up/state" in shlex.split(command)
    else:
        assert ran.stdout.split() == ["1.0.0", "1000000", "0"]


def test_node_reds_function_gives_rates_of_two_reports_of_one_tally() -> None:
    if shutil.which("node") is None:
        pytest.skip("needs node: apt-get install nodejs")
    first, second, other = (json.loads(usual().to_bytes()) for _ in range(3))
    second["tally"] |= {"samples": 1_000_100, "escalated": 25}
    second["tally"]["latency"][4] += 60
    second["tally"]["latency"][9] += 40
    other["tally"]["started"] = 1
    (body,) = blocks("js")
    script = f"""
      const kept = {{}}, context = {{ get: k => kept[k], set: (k, v) => {{ kept[k] = v; }} }};
      const run = msg => {{ {body} }};
      const topic = {json.dumps(topics.telemetry(DeviceId("cam-1")))};
      const out = {json.dumps([first, second, second, other])}.map(payload => run({{ topic, payload }}));
      console.log(JSON.stringify(out));
    """
    ran = subprocess.run(
        ["node", "-e", script], capture_output=True, text=True, timeout=30, check=True
    )
    nothing, rates, again, anew = json.loads(ran.stdout)
    assert nothing is again is anew is None
    assert rates["payload"] == {
        "device": "cam-1", "version": "1.0.0", "samples": 100, "escalated": 0.25,
        "median_ms_below": 0.2,
    }  # fmt: skip
