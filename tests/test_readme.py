"""What the README and the page of the HTTP API tell people to run, run."""

import asyncio
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from cloud.config import load
from cloud.demo.processes import running
from tests.end_to_end.region import free_port

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_agent_and_cloud_apart_and_a_client(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    ports = {port: str(free_port()) for port in ("1883", "8600", "8700")}
    for name in ("cloud", "agent"):
        _copy(name, tmp_path, ports)
    assert "hybridge-cloud serve --config firmware_configs/cloud.toml" in README
    assert "hybridge-edge run --config firmware_configs/agent.toml" in README
    words = asyncio.run(_client(_moved(program, ports), tmp_path, "cloud", "edge"))
    assert re.search(r"\[b'[A-Z][A-Za-z/ -]+'\] \[0\.[0-9]+\] \[b'fused'\]", words), words


def test_the_page_of_the_http_api(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "inference.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "curl -s 127.0.0.1:8700/v2/models/fashion-cloud" in page
    ports = {port: str(free_port()) for port in ("1883", "8700")}
    _copy("cloud", tmp_path, ports)
    words = asyncio.run(_client(_moved(program, ports), tmp_path, "cloud"))
    assert re.search(r"\[b'[A-Z][A-Za-z/ -]+'\] \[0\.[0-9]+\] \[b'cloud'\]", words), words


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "inference.md").read_text()
    settings, experiment = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "cloud.toml").write_text(f'{settings}\n[[models]]\nbundle = "b"\n')
    assert load(tmp_path / "cloud.toml", {}).result_cache.policy == "arc"
    (tmp_path / "cloud.toml").write_text(experiment)
    (one,) = load(tmp_path / "cloud.toml", {}).experiments
    assert [arm.share for arm in one.arms] == [0.9, 0.1]


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", README, re.MULTILINE)) <= targets


def _moved(text: str, ports: dict[str, str]) -> str:
    for port, free in ports.items():
        text = re.sub(rf"\b{port}\b", free, text)
    return text


def _copy(name: str, folder: Path, ports: dict[str, str]) -> None:
    text = (ROOT / "firmware_configs" / f"{name}.toml").read_text()
    text = text.replace('"../models', f'"{ROOT}/models').replace('"../runs', f'"{folder}')
    (folder / f"{name}.toml").write_text(_moved(text, ports))


async def _client(program: str, folder: Path, *parts: str) -> str:
    """What `program` prints while `parts` run."""
    files = {"cloud": ("serve", "cloud.toml"), "edge": ("run", "agent.toml")}
    async with AsyncExitStack() as stack:
        for part in parts:
            command, file = files[part]
            arguments = ("-m", part, command, "--config", str(folder / file))
            await stack.enter_async_context(running(part, arguments, folder))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()
