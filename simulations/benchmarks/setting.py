"""What every benchmark needs: both bundles, the images, a folder, and a real agent in-process."""

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge.agent import Agent
from edge.config import Config
from edge.inference.slot import open_slot
from edge.journal.journal import Journal
from edge.journal.writes import Bounds
from edge.telemetry.counters import Counters
from shared.bundle.reader import open_bundle
from shared.engines.onnxruntime_engine import load_onnxruntime

BareRun = Callable[[NDArray[np.uint8]], object]


@dataclass(frozen=True, slots=True)
class Setting:
    models: Path
    folder: Path
    images: NDArray[np.uint8]  # [N, 28, 28]

    @property
    def edge_bundle(self) -> Path:
        return self.models / "fashion-edge"

    @property
    def cloud_bundle(self) -> Path:
        return self.models / "fashion-cloud"


def bare_session(bundle: Path) -> BareRun:
    """Onnxruntime alone on a bundle's int8 graph, one thread: [N, 28, 28] -> [N, 10]."""
    ort = load_onnxruntime()
    opened = open_bundle(bundle)
    variant = next(v for v in opened.manifest.variants if v.key == "onnxruntime/int8")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        opened.read(variant.file), options, providers=["CPUExecutionProvider"]
    )

    def run(batch: NDArray[np.uint8]) -> object:
        return session.run(["logits"], {"image": batch})

    return run


@asynccontextmanager
async def agent_here(
    setting: Setting, name: str, broker: str, routing: dict[str, object]
) -> AsyncGenerator[tuple[Agent, Journal]]:
    """An agent with its journal in this process, as `edge.service` builds it, without API.

    Its uplink does not run unless the caller runs it.
    """
    state_dir = setting.folder / name
    state_dir.mkdir()
    config = Config.model_validate({
        "device_id": name, "state_dir": state_dir, "bundle": setting.edge_bundle,
        "engine": "onnxruntime", "routing": routing, "uplink": {"url": broker},
    })  # fmt: skip
    slot = open_slot(config.bundle, config.engine, state_dir / "engines")
    journal = Journal(state_dir / "state.db", Bounds(config.answers.kept_max), gap_s_max=43_200)
    try:
        yield Agent(config, slot, journal, Counters(), random.Random(1)), journal
    finally:
        slot.close()
