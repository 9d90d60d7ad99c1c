"""A member of a fleet that ends itself by SIGKILL once a desired model is on disk, before an effect.

python -m tests.edge.fleet.killed_member STATE_DIR HOST PORT SETTINGS.json
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from cloud.broker.launch import BrokerAddress
from edge.fleet import kept_file
from edge.fleet.kept import Kept
from edge.updates.settings import UpdateSettings
from tests.edge.fleet.following import following

_save = kept_file.save


def _last_act(state_dir: Path, kept: Kept) -> None:
    _save(state_dir, kept)
    if kept.model is not None:
        os.kill(os.getpid(), signal.SIGKILL)


async def main(state_dir: Path, host: str, port: int, updating: UpdateSettings) -> None:
    broker = BrokerAddress(host, port, asyncio.get_running_loop().create_future())
    async with following(state_dir, broker, updating):
        await asyncio.Event().wait()


if __name__ == "__main__":
    kept_file.save = _last_act
    read = UpdateSettings.model_validate_json(Path(sys.argv[4]).read_bytes())
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), read))
