"""Rows' answers as bytes: JSON lines, or arrays in an `.npz`. Pure.

Numbers are rounded to six digits, which is more than calibration can mean, and says the same on
engines that differ in their last bits.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from cloud.batch.job import Job

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Answered:
    """What a model said to one batch."""

    probabilities: NDArray[np.float32]  # [n, classes], calibrated
    version: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Successive rows of one input."""

    name: str
    start: int
    count: int


class JsonLines:
    """One object a row: name, row, label, index, confidence, model, version."""

    suffix = "jsonl"

    def __init__(self, job: Job, labels: Sequence[str]) -> None:
        self._all = job.probabilities
        self._model = json.dumps(job.model)
        self._labels = [json.dumps(label) for label in labels]
        self._lines: list[str] = []

    def add(self, pieces: Sequence[Piece], answered: Answered) -> None:
        """`answered` has the pieces' rows in their order; under 1 ms for a batch of 64."""
        rounded = np.round(answered.probabilities.astype(np.float64), _DIGITS)
        winners = answered.probabilities.argmax(axis=1).tolist()
        end = f'"model":{self._model},"version":{json.dumps(answered.version)}}}\n'
        at = 0
        for piece in pieces:
            name = json.dumps(piece.name)
            for row in range(piece.start, piece.start + piece.count):
                winner, numbers = winners[at], rounded[at]
                everything = f'"probabilities":{numbers.tolist()},' if self._all else ""
                self._lines.append(
                    f'{{"name":{name},"row":{row},"label":{self._labels[winner]},'
                    f'"index":{winner},"confidence":{numbers[winner]},{everything}{end}'
                )
                at += 1

    def content(self) -> bytes:
        return "".join(self._lines).encode()


class Arrays:
    """Arrays `name`, `row`, `label`, `index`, `confidence`, `version`, `model`, one item a row."""

    suffix = "npz"

    def __init__(self, job: Job, labels: Sequence[str]) -> None:
        self._all, self._model, self._labels = job.probabilities, job.model, np.array(labels)
        self._pieces: list[Piece] = []
        self._answered: list[Answered] = []

    def add(self, pieces: Sequence[Piece], answered: Answered) -> None:
        self._pieces += pieces
        self._answered.append(answered)

    def content(self) -> bytes:
        probabilities = np.concatenate([a.probabilities for a in self._answered])
        rounded = np.round(probabilities.astype(np.float64), _DIGITS).astype(np.float32)
        index = probabilities.argmax(axis=1)
        names = np.array([piece.name for piece in self._pieces])
        versions = np.array([a.version for a in self._answered])
        arrays = {
            "name": np.repeat(names, [piece.count for piece in self._pieces]),
            "row": np.concatenate([np.arange(p.start, p.start + p.count) for p in self._pieces]),
            "label": self._labels[index],
            "index": index,
            "confidence": rounded[np.arange(len(index)), index],
            "version": np.repeat(versions, [len(a.probabilities) for a in self._answered]),
            "model": np.full(len(index), self._model),
        }
        if self._all:
            arrays["probabilities"] = rounded
        packed = BytesIO()
        np.savez_compressed(packed, **arrays)
        return packed.getvalue()


PartContent = JsonLines | Arrays


def part_content(job: Job, labels: Sequence[str]) -> PartContent:
    """For one part."""
    return JsonLines(job, labels) if job.layout == "jsonl" else Arrays(job, labels)
