"""A cloud model that has seen no bad day: a teacher that is worse than its student under noise.

    python -m cloud.training.plain_cloud --models models --runs runs [--threads 1]

It is there to show that the loop refuses it, as version 0.9.0 of the cloud model, in
`models/fashion-cloud-plain`. On the test images it has 47.4 % under noise, where the edge has 60.5 %
(an earlier one had 44.7 %). Nobody should serve with it. A run that is stopped resumes after its last epoch.
"""

import argparse
import logging
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from cloud.training import evaluate, fashion_mnist
from cloud.training.fashion_mnist import Dataset
from cloud.training.fit import Plan, fit
from cloud.training.networks import CloudNet
from cloud.training.recipe import CLOUD, EDGE
from cloud.training.recipes import base_data, make_bundle
from cloud.training.recipes.ending import as_candidate
from cloud.training.recipes.ground import opened
from cloud.training.recipes.make_bundle import Ground
from cloud.training.shifts import SHIFTS, shift
from shared import logs
from shared.bundle.reader import open_bundle

log = logging.getLogger(__name__)

FOLDER, VERSION = "fashion-cloud-plain", "0.9.0"
# Moves and erasing, as a cloud model would be trained by whoever thinks of clean images alone.
PLAN = Plan(
    epochs=9,
    seed=1,
    learning_rate_max=0.3,
    weight_decay=5e-4,
    average_decay=0.0,
    moves=True,
    bf16=True,
)
RANGE_SAMPLES = 512


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a cloud model without random shifts.")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="checkpoints")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    logs.set_up("INFO")
    torch.set_num_threads(arguments.threads)
    arguments.runs.mkdir(parents=True, exist_ok=True)
    data = fashion_mnist.load()
    torch.manual_seed(PLAN.seed)
    network = fit(CloudNet(), data.train, PLAN, checkpoint=arguments.runs / "plain-cloud.ckpt")
    write(network, data, arguments.models)


def write(network: nn.Module, data: Dataset, models: Path) -> None:
    """The bundle, beside the cloud model whose payload dictionary it keeps; and how it does, logged."""
    candidate = as_candidate(
        network, name=CLOUD, version=VERSION, answers_for=(EDGE,), base_rows=len(data.train),
        hyperparameters={"fit": asdict(PLAN)}, ranges=data.train.images[:RANGE_SAMPLES],
    )  # fmt: skip
    ground = Ground(
        base=base_data.load(fashion_mnist.FOLDER), dictionary=open_bundle(models / CLOUD).dictionary
    )
    make_bundle.make(candidate, ground, models / FOLDER)
    session = opened(candidate.served, FOLDER)
    for kind in SHIFTS:
        logits = evaluate.logits(session, shift(data.test.images, kind))
        log.info("figure", extra={
            "figure": f"accuracy, {kind}", "value": evaluate.accuracy(logits, data.test.labels),
        })  # fmt: skip


if __name__ == "__main__":
    main()
