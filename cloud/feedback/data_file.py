"""The file of a data set: a zip of plain arrays, one row a sample, nothing pickled.

Its name is the SHA-256 of its arrays (names, dtypes, shapes, bytes, in the order below), not of the
zip, whose compression may differ from one machine to another.
"""

import hashlib
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

NO_SITE = ""


@dataclass(frozen=True, slots=True)
class DataRows:
    """N samples in the order of their ids."""

    inputs: NDArray[np.generic]
    """[N, ...] as the model takes them (uint8), decoded."""
    labels: NDArray[np.int64]
    """[N], of the highest rank."""
    soft: NDArray[np.float32]
    """[N, classes]: the cloud's calibrated probabilities, whoever the label is from."""
    sources: NDArray[np.uint8]
    """[N]: 0 person, 1 cloud, 2 edge."""
    shares: NDArray[np.float32]
    """[N]: with which probability a sample like it was sent."""
    edge_labels: NDArray[np.int64]
    """[N]: what the edge had said."""
    holdout: NDArray[np.bool_]
    """[N]: to measure on, never to train on."""
    captured: NDArray[np.float64]
    """[N], Unix seconds by the device's clock."""
    ids: NDArray[np.str_]
    """[N], UUIDs as text."""
    devices: NDArray[np.str_]
    """[N]."""
    sites: NDArray[np.str_]
    """[N]; `NO_SITE`: none."""

    def __len__(self) -> int:
        return len(self.labels)


def content_hash(rows: DataRows) -> str:
    """SHA-256, in hex."""
    digest = hashlib.sha256()
    for field in fields(rows):
        array = np.ascontiguousarray(getattr(rows, field.name))
        digest.update(f"{field.name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
