"""A feedback data set as a recipe takes it: checked against the model, split, weighted. Pure.

What came back is not what devices see: all that escalates is sent, of the rest only an audit's
share. A sample sent with probability p stands for 1 / p of its kind (Horvitz and Thompson 1952), and
a sample kept with probability p_min / p makes the rest one fair draw of what devices see.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.data_file import DataRows
from shared.errors import Malformed

PERSON, CLOUD, EDGE = 0, 1, 2
SHARE_MIN = 0.005  # a sample stands for 200 at most: one cannot outweigh all others
TRAIN_ROWS_MIN = 32
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Field:
    """N samples of one side: to train on, or held out."""

    images: NDArray[np.uint8]
    """[N, H, W], as they arrived."""
    labels: NDArray[np.int64]
    soft: NDArray[np.float32]
    """[N, classes], the cloud's calibrated probabilities."""
    sources: NDArray[np.uint8]
    shares: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def by_person(self) -> NDArray[np.bool_]:
        return self.sources == PERSON

    @property
    def weights(self) -> NDArray[np.float64]:
        """[N]: for how many of what devices see each stands; their mean is 1."""
        weights = 1 / self.shares
        return weights / weights.mean() if len(weights) else weights

    @property
    def once(self) -> NDArray[np.bool_]:
        """[N]: one of each picture, one that a person labelled where there is one: what a still camera sends a
        hundred times proves no more than once.
        """
        found = np.zeros(len(self), np.bool_)
        seen = set[bytes]()
        for number in np.argsort(self.sources, kind="stable"):
            picture = hashlib.sha256(self.images[number].tobytes()).digest()
            found[number] = picture not in seen
            seen.add(picture)
        return found

    def fair_draw(self, rng: np.random.Generator) -> NDArray[np.bool_]:
        """[N]: which of them are spread as what devices see; often sent kinds are thinned."""
        if not len(self):
            return np.zeros(0, np.bool_)
        return np.asarray(rng.random(len(self)) < self.shares.min() / self.shares)

    def taken(self, chosen: NDArray[np.generic]) -> "Field":
        return Field(
            self.images[chosen], self.labels[chosen], self.soft[chosen], self.sources[chosen],
            self.shares[chosen],
        )  # fmt: skip


def joined(parts: Sequence[Field]) -> Field:
    """One field of several; at least one is needed."""
    return Field(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("images", "labels", "soft", "sources", "shares")
        )
    )


def train_and_holdout(
    rows: DataRows, image_shape: tuple[int, ...], classes: int, where: str
) -> tuple[Field, Field]:
    """Raises `Malformed`, in words, for rows that this model cannot learn from."""
    _check_shapes(rows, image_shape, classes, where)
    _check_values(rows, classes, where)
    _check_contradictions(rows, where)
    whole = Field(
        images=np.asarray(rows.inputs, np.uint8),
        labels=np.asarray(rows.labels, np.int64),
        soft=np.asarray(rows.soft, np.float32),
        sources=np.asarray(rows.sources, np.uint8),
        shares=np.clip(np.asarray(rows.shares, np.float64), SHARE_MIN, 1.0),
    )
    train, holdout = whole.taken(~rows.holdout), whole.taken(rows.holdout)
    if len(train) < TRAIN_ROWS_MIN:
        raise Malformed(
            f"{where}: {len(train)} samples to train on ({len(rows)} with the holdout); give "
            f"{TRAIN_ROWS_MIN} or more"
        )
    if len(present := np.unique(train.labels)) < 2:
        raise Malformed(
            f"{where}: all {len(train)} samples to train on have label {present[0]}; a model would "
            "learn to say nothing else: give samples of two or more classes"
        )
    return train, holdout


def _check_shapes(rows: DataRows, image_shape: tuple[int, ...], classes: int, where: str) -> None:
    if len(rows) == 0:
        raise Malformed(f"{where}: has no samples; wait until devices have sent some")
    if rows.inputs.dtype != np.uint8 or rows.inputs.shape[1:] != image_shape:
        raise Malformed(
            f"{where}: inputs are {rows.inputs.dtype}{list(rows.inputs.shape)}, the model takes "
            f"uint8[N, {', '.join(map(str, image_shape))}]; build the data set from its own samples"
        )
    if rows.soft.shape != (len(rows), classes):
        raise Malformed(
            f"{where}: soft labels are {list(rows.soft.shape)} for {len(rows)} samples of {classes} "
            "classes; the cloud's model has other labels than the edge's"
        )


def _check_values(rows: DataRows, classes: int, where: str) -> None:
    if rows.labels.min() < 0 or rows.labels.max() >= classes:
        raise Malformed(
            f"{where}: labels {rows.labels.min()}..{rows.labels.max()}; the model has 0..{classes - 1}"
        )
    if not np.isfinite(rows.soft).all() or (rows.soft < 0).any():
        raise Malformed(f"{where}: soft labels are no probabilities (NaN, infinite or below 0)")
    if np.abs(rows.soft.sum(1) - 1).max() > 0.01:
        raise Malformed(f"{where}: soft labels do not sum to 1; give calibrated probabilities")
    if not (np.isfinite(rows.shares).all() and (rows.shares > 0).all() and rows.shares.max() <= 1):
        raise Malformed(
            f"{where}: shares lie outside 0..1; a sample was sent with some probability"
        )
    if rows.sources.max() > EDGE:
        raise Malformed(f"{where}: sources go to {rows.sources.max()}; there are 0, 1 and 2")


def _check_contradictions(rows: DataRows, where: str) -> None:
    """The same picture with two labels by people: nobody can learn both."""
    first = dict[bytes, int]()
    clashes = list[str]()
    for number in np.flatnonzero(rows.sources == PERSON):
        digest = hashlib.sha256(rows.inputs[number].tobytes()).digest()
        other = first.setdefault(digest, int(number))
        if rows.labels[other] != rows.labels[number]:
            clashes.append(
                f"{rows.ids[other]} is {rows.labels[other]}, {rows.ids[number]} is "
                f"{rows.labels[number]}"
            )
    if clashes:
        raise Malformed(
            f"{where}: {len(clashes)} samples that are the same picture have other labels by people: "
            f"{'; '.join(clashes[:_NAMED])}; correct them, or delete one of each"
        )
