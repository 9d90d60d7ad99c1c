"""What the README tells people to run, run: its two configurations and its Python block."""

import asyncio
import re
import sys
from pathlib import Path

from cloud.demo.processes import running
from tests.end_to_end.region import free_port

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_agent_and_cloud_apart_and_a_client(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    ports = {port: str(free_port()) for port in ("1883", "8600", "8700")}
    for name in ("cloud", "agent"):
        text = (ROOT / "firmware_configs" / f"{name}.toml").read_text()
        text = text.replace('"../models', f'"{ROOT}/models').replace('"../runs', f'"{tmp_path}')
        (tmp_path / f"{name}.toml").write_text(_moved(text, ports))
    assert "hybridge-cloud serve --config firmware_configs/cloud.toml" in README
    assert "hybridge-edge run --config firmware_configs/agent.toml" in README
    words = asyncio.run(_client(_moved(program, ports), tmp_path))
    assert re.search(r"\[b'[A-Z][A-Za-z/ -]+'\] \[0\.[0-9]+\] \[b'fused'\]", words), words


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", README, re.MULTILINE)) <= targets


def _moved(text: str, ports: dict[str, str]) -> str:
    for port, free in ports.items():
        text = re.sub(rf"\b{port}\b", free, text)
    return text


async def _client(program: str, folder: Path) -> str:
    cloud = ("-m", "cloud", "serve", "--config", str(folder / "cloud.toml"))
    agent = ("-m", "edge", "run", "--config", str(folder / "agent.toml"))
    async with running("cloud", cloud, folder), running("agent", agent, folder):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()
