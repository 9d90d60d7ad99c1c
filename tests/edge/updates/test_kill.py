"""kill -9 of a real process at each step: the next one goes on, and there is always an answer."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.bundle.reader import parse_manifest
from tests.edge.updates.station import WAIT_S, Station, bundle, settings, station
from tests.shared.fetching.bad_server import Seen
from tests.tiny_bundle import file_of, rewrite_manifest, write_tiny_bundle

_ROOT = Path(__file__).parents[3]


def with_big_card(folder: Path, size: int) -> str:
    """Make the bundle's model card this big; returns the card's hash."""
    card = os.urandom(size)
    (folder / "card.md").write_bytes(card)
    manifest = parse_manifest((folder / "manifest.json").read_bytes(), "it")
    listed = file_of("card.md", card)
    rewrite_manifest(folder, manifest.model_copy(update={"card": listed}))
    return listed.sha256


class Process:
    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def says(self, *wanted: str) -> list[str]:
        """Read on until a line begins with one of these, or the process ends."""
        assert self._child.stdout is not None
        lines = []
        async with asyncio.timeout(WAIT_S):
            while line := (await self._child.stdout.readline()).decode().strip():
                lines.append(line)
                if line.startswith(wanted):
                    break
        return lines

    async def ended(self) -> int:
        await self.says("never")
        return await self._child.wait()

    def kill(self) -> None:
        self._child.kill()


@asynccontextmanager
async def process(root: Path, registry: Station, die_at: str = "") -> AsyncIterator[Process]:
    if not (root / "bundle").exists():
        write_tiny_bundle(root / "bundle")
    file = root / "settings.json"
    file.write_text(settings(registry, root).model_dump_json())
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.edge.updates.killed_agent",
        str(root / "device"), str(root / "bundle"), str(file), die_at,
        cwd=_ROOT, stdout=asyncio.subprocess.PIPE, limit=2**20,
    )  # fmt: skip
    try:
        yield Process(child)
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


def versions(lines: list[str]) -> list[str]:
    return [
        json.loads(line.removeprefix("answer "))["version"]
        for line in lines
        if line.startswith("answer ")
    ]


def test_killed_at_each_step_the_next_process_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with station() as registry:
            registry.release(bundle(tmp_path, "2.0.0", shift=1))
            for phase in ("downloading", "verifying", "probing", "trial"):
                async with process(tmp_path, registry, phase) as it:
                    lines = await it.says("never")
                    assert lines[-1] == f"phase {phase}" or "answer" in lines[-1]
                    assert f"phase {phase}" in lines
                    assert await it.ended() == -9
                    assert set(versions(lines)) <= {"1.0.0"}
            async with process(tmp_path, registry, "active") as it:
                assert await it.ended() == -9  # the pointer has moved, the slot has not
            async with process(tmp_path, registry) as it:
                lines = await it.says('answer {"version": "2.0.0", "label": 1}')
                assert versions(lines) == ["2.0.0"]

    asyncio.run(main())


def test_killed_in_the_middle_of_a_file_the_next_process_goes_on_at_the_right_byte(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with station() as registry:
            new = bundle(tmp_path, "2.0.0", shift=1)
            card = with_big_card(new, 3_000_000)
            registry.release(new)
            registry.bad_path, registry.misdeeds = card, [registry.hangs(2_500_000)]
            async with process(tmp_path, registry) as it:
                while partial_bytes(tmp_path) < 2_000_000:
                    await it.says("answer")  # it answers all the while
                it.kill()
                await it.ended()
            here = partial_bytes(tmp_path)  # a piece may have been half written when it was looked
            async with process(tmp_path, registry) as it:
                await it.says('answer {"version": "2.0.0", "label": 1}')
            asked = [seen for seen in registry.seen if seen.path.endswith(card)]
            assert resumed(asked) == [f"bytes={here}-"]
            assert asked[-1].if_range == f'"{card}"'

    asyncio.run(main())


def partial_bytes(root: Path) -> int:
    return max(
        (p.stat().st_size for p in root.glob("device/updates/staging/*/*.partial")), default=0
    )


def resumed(asked: list[Seen]) -> list[str]:
    return [seen.range for seen in asked if seen.range]
