"""A trace that begins at the device's API goes through MQTT into the cloud's inference log."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from shared.oip.request import InferRequest, encode_request
from shared.oip.tensors import Tensor
from tests.end_to_end.region import Region
from tests.tiny_bundle import unsure_image

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@dataclass
class Logged(Region):
    """A region whose inference log has every answer, and a device without other sources."""

    def prepare(self) -> None:
        super().prepare()
        agent = self.folder / "agent.toml"
        agent.write_text(agent.read_text().split("[[sources]]")[0])
        (self.folder / "cloud.toml").write_text(
            '[[models]]\nbundle = "cloud-bundle"\n[inference_log]\nshare = 1.0\n'
        )

    def arguments(self, name: str) -> tuple[str, ...]:
        if name != "cloud":
            return super().arguments(name)
        return (
            "-m", "cloud", "serve", "--config", str(self.folder / "cloud.toml"),
            "--state-dir", str(self.folder / "cloud"),
            "--broker", f"mqtt://127.0.0.1:{self.broker_port}",
        )  # fmt: skip


async def _ask(url: str, traceparent: str) -> dict[str, object]:
    image = Tensor("image", unsure_image()[None])
    asked = encode_request(InferRequest((image,), parameters={"wait": "final", "wait_ms": 900}))
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{url}/v2/models/tiny-edge/infer", data=asked.body,
            headers={**asked.headers, "traceparent": traceparent},
        ) as response,
    ):  # fmt: skip
        found: dict[str, object] = json.loads(await response.read())["parameters"]
        return found


async def _scenario(region: Region) -> tuple[dict[str, object], dict[str, object]]:
    region.prepare()
    try:
        for name in ("broker", "cloud", "agent"):
            await region.up(name)
        api = region.running["agent"].ready["api"]
        traced = await _ask(api, f"00-{TRACE}-00f067aa0ba902b7-01")
        broken = await _ask(api, "00-not-a-trace-01")
    finally:
        await region.down()
    return traced, broken


def test_the_same_trace_at_both_ends(tmp_path: Path) -> None:
    traced, broken = asyncio.run(_scenario(Logged(tmp_path)))

    logged = (tmp_path / "cloud/inference.log").read_text()
    lines = [json.loads(line) for line in logged.splitlines()]
    by_sample = {line["request_id"]: line for line in lines}
    assert by_sample[traced["sample_id"]]["trace_id"] == TRACE
    assert by_sample[traced["sample_id"]]["caller"] == "cam-1"
    assert by_sample[broken["sample_id"]]["trace_id"] is None
