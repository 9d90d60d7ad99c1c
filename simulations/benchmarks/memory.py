"""Resident memory of an idle agent process: model loaded, API up, link up."""

import asyncio
import re
from pathlib import Path

import aiohttp

from cloud.demo.processes import running
from simulations.benchmarks.report import Row
from simulations.benchmarks.setting import Setting

TARGET_MB = 120.0
_SETTLE_S = 2.0


async def measure(setting: Setting) -> list[Row]:
    broker = ("-m", "cloud.broker", "--host", "127.0.0.1", "--port", "0")
    async with running("bench-broker", broker, setting.folder) as started:
        config = setting.folder / "idle.toml"
        config.write_text(
            f'device_id = "idle"\nstate_dir = "idle"\nbundle = "{setting.edge_bundle.absolute()}"\n'
            f'[uplink]\nurl = "mqtt://{started.ready["host"]}:{started.ready["port"]}"\n'
        )
        arguments = ("-m", "edge", "run", "--config", str(config))
        async with running("bench-idle", arguments, setting.folder) as agent:
            async with aiohttp.ClientSession() as http:
                await http.get(f"{agent.ready['api']}/v1/status")
            await asyncio.sleep(_SETTLE_S)
            resident = _resident_mb(agent.pid)
    return [Row("idle agent, resident", resident, "target", TARGET_MB, "MB", resident / TARGET_MB, "<=", 1.0)]  # fmt: skip


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024
