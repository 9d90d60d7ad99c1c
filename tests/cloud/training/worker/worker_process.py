"""`python worker_process.py LEARNING_TOML`: a train-worker whose jobs are the fake child."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from cloud.running import on_signals, run
from cloud.training.worker.config import load
from cloud.training.worker.service import TrainWorkerService
from shared.logs import set_up
from tests.cloud.training.worker.standing import FAKE


async def serve() -> bool:
    config = load(Path(sys.argv[1]), {})
    service = TrainWorkerService(config, lambda name, _: print(name, flush=True), words=FAKE)
    on_signals(service)
    return await service.run()


set_up("info")
sys.exit(run(serve, "not_started"))
