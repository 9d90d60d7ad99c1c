"""A data set as the feedback store would make it of what was sent, labelled by the cloud's model."""

import hashlib
import uuid
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.data_file import DataRows
from cloud.training import evaluate
from cloud.training.recipes.field import CLOUD
from cloud.training.recipes.ground import Answering
from simulations.drift_recovery.stream import Sent

HOLDOUT_SHARE: Final = 0.1


def labelled(images: NDArray[np.uint8], what: Sent, cloud: Answering, seed: int) -> DataRows:
    """`images` [N, H, W] is the whole stream. The cloud sees what arrives: sixteen grey levels."""
    arrived, _ = evaluate.as_escalated(images[what.chosen], cloud.bundle.dictionary)
    soft = cloud.probabilities(arrived)
    ids = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {n}")) for n in what.chosen]
    drawn = [hashlib.sha256(one.encode()).digest()[0] < 256 * HOLDOUT_SHARE for one in ids]
    count = len(ids)
    return DataRows(
        inputs=arrived, labels=soft.argmax(1).astype(np.int64), soft=soft,
        sources=np.full(count, CLOUD, np.uint8), shares=what.shares, edge_labels=what.edge_labels,
        holdout=np.array(drawn, np.bool_), captured=what.chosen.astype(np.float64),
        ids=np.array(ids), devices=np.full(count, "camera"), sites=np.full(count, ""),
    )  # fmt: skip
