"""kill -9 of a real process at each step: the next one goes on, and there is always an answer."""

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edge.updates.target import Target
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
async def process(
    root: Path, registry: Station, die_at: str = "", fleet: str = "", **changes: Any
) -> AsyncIterator[Process]:
    if not (root / "bundle").exists():
        write_tiny_bundle(root / "bundle")
    file = root / "settings.json"
    file.write_text(settings(registry, root, **changes).model_dump_json())
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.edge.updates.killed_agent",
        str(root / "device"), str(root / "bundle"), str(file), die_at, fleet,
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


def test_killed_at_each_step_of_what_the_fleet_asks_the_next_process_goes_on(
    tmp_path: Path,
) -> None:
    """Each wish is told once, to a process that dies; the ones after it know it from the disk."""

    async def main() -> None:
        async with station() as registry:
            sha256 = registry.release(bundle(tmp_path, "2.0.0", shift=1))
            home = hashlib.sha256((tmp_path / "bundle/manifest.json").read_bytes()).hexdigest()
            steps = (
                (Target(1, "2.0.0", sha256, "shadow"), "target", "1.0.0"),
                (None, "staged", "1.0.0"),
                (Target(2, "2.0.0", sha256), "trial", "1.0.0"),
                (None, "active", "1.0.0"),
                (Target(3, "1.0.0", home, undo=True), "restoring", "2.0.0"),
            )
            for target, phase, version in steps:
                fleet = json.dumps(target and asdict(target))
                async with process(
                    tmp_path, registry, phase, fleet, agreement_min=0.0, trial_s_max=0.1
                ) as it:
                    lines = await it.says("never")
                    assert f"phase {phase}" in lines
                    assert await it.ended() == -9
                    assert set(versions(lines)) <= {version}
            async with process(tmp_path, registry, "", "null") as it:
                lines = await it.says('answer {"version": "1.0.0", "label": 0}')
                assert set(versions(lines)) <= {"2.0.0", "1.0.0"}
                assert "phase active" in lines

    write_tiny_bundle(tmp_path / "bundle")
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
