"""An agent with updates as a process of its own, which ends itself by SIGKILL where it is told to.

python -m tests.edge.updates.killed_agent STATE_DIR FACTORY SETTINGS.json PHASE FLEET

FLEET is what a fleet asks for (a target as JSON), "null" where it says nothing new, or empty for an
agent that follows none.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

from edge.inference.slot import Slot, open_slot
from edge.updates.settings import UpdateSettings
from edge.updates.start import open_active
from edge.updates.target import Target
from edge.updates.updates import Updates
from tests.edge.stand_in_cloud import a_sample, agent, config
from tests.tiny_bundle import sure_image


class _Watch(logging.Handler):
    """At this point the state is on disk, and nothing that follows from it has been done."""

    def __init__(self, die_at: str) -> None:
        super().__init__()
        self._die_at = die_at

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg in ("update_phase", "update_target"):
            phase = vars(record).get("phase", "target")
            print(f"phase {phase}", flush=True)
            if phase == self._die_at:
                os.kill(os.getpid(), signal.SIGKILL)


async def main(state_dir: Path, factory: Path, settings: UpdateSettings, fleet: str) -> None:

    def opener(path: Path) -> Slot:
        return open_slot(path, "auto", state_dir / "engines")

    slot = open_active(state_dir, factory, opener)
    async with agent(config(state_dir, None, uplink=None), slot) as running:
        updates = Updates(
            settings, running, state_dir=state_dir, factory=factory, device_id="cam-1", engine="auto",
            follows_fleet=bool(fleet),
        )  # fmt: skip
        if fleet and (asked := json.loads(fleet)):
            updates.follow(Target(**asked))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(updates.run())
            while True:
                answer = await running.answer(a_sample(sure_image(0)))
                said = {"version": answer.model_version, "label": answer.label}
                print(f"answer {json.dumps(said)}", flush=True)
                await asyncio.sleep(0.02)


if __name__ == "__main__":
    logging.getLogger("edge.updates").setLevel(logging.INFO)
    logging.getLogger("edge.updates").addHandler(_Watch(sys.argv[4]))
    state, bundle, file = map(Path, sys.argv[1:4])
    state.mkdir(exist_ok=True)
    asyncio.run(
        main(state, bundle, UpdateSettings.model_validate_json(file.read_bytes()), sys.argv[5])
    )
