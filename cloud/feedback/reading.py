"""Rows of the store to a data set's arrays. Pure: what cannot be read is counted, never fatal."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from cloud.feedback.data_file import DataRows
from cloud.feedback.documents import Source
from cloud.feedback.ranking import CODES
from shared.errors import Malformed, TooLarge, Unknown
from shared.wire.envelope import Payload
from shared.wire.pixels import Decoder

NO_DICTIONARY: Final = "no_dictionary"
UNREADABLE: Final = "unreadable"
OTHER_SHAPE: Final = "other_shape"
OTHER_CLASSES: Final = "other_classes"
LABEL_OUTSIDE: Final = "label_outside"
CONTRADICTED: Final = "contradicted"
"""As `sampling` counts samples about which people differ."""
SHARE_MIN: Final = 0.001
"""A device says itself with what share it sends. Below this its samples would outweigh the fleet's; one
that float32 does not hold would be 0, and make a whole data set unreadable."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One sample as it is in the store, and how a data set takes it."""

    id: UUID
    device: str
    site: str
    payload: Payload
    probabilities: bytes
    """Little-endian float32 [classes]."""
    label: int
    source: Source
    share: float
    edge_label: int
    holdout: bool
    captured_at: float
    received_at: float


@dataclass(frozen=True, slots=True)
class Read:
    rows: DataRows
    received: NDArray[np.float64]
    """[N], Unix seconds by the region's clock."""
    excluded: dict[str, int]


def shape_of(text: str) -> tuple[int, ...]:
    """As the store has it, "28,28"; () for what is no shape."""
    parts = text.split(",")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


def decoded_bytes(rows: Sequence[StoredRow]) -> int:
    """What the arrays of inputs and soft labels will have."""
    return sum(math.prod(row.payload.shape) + len(row.probabilities) for row in rows)


def read(rows: Sequence[StoredRow], decoder: Decoder) -> Read:
    """Rows in the order of their ids, then devices. The shape and the number of classes that most
    have are the data set's. All rows of one picture are on one side of the holdout: else what is
    measured there would have been trained on.
    """
    excluded: Counter[str] = Counter()
    shape, classes = usual(rows)
    kept: list[StoredRow] = []
    inputs: list[NDArray[np.uint8]] = []
    for row in sorted(rows, key=lambda one: (one.id.int, one.device)):
        if (tensor := _tensor(row, shape, classes, decoder, excluded)) is not None:
            kept.append(row)
            inputs.append(tensor)
    pictures = [hashlib.sha256(tensor.tobytes()).digest() for tensor in inputs]
    held: dict[bytes, bool] = {}
    for row, picture in zip(kept, pictures, strict=True):
        held.setdefault(picture, row.holdout)  # as the first, and ids begin with the time
    kept = [replace(row, holdout=held[own]) for row, own in zip(kept, pictures, strict=True)]
    if doubtful := _doubtful(kept, pictures):
        excluded[CONTRADICTED] += len(doubtful)
        kept = [row for number, row in enumerate(kept) if number not in doubtful]
        inputs = [tensor for number, tensor in enumerate(inputs) if number not in doubtful]
    soft = [np.frombuffer(row.probabilities, "<f4") for row in kept]
    found = DataRows(
        inputs=np.stack(inputs) if inputs else np.zeros((0, *shape), np.uint8),
        labels=np.array([row.label for row in kept], np.int64),
        soft=np.stack(soft).astype(np.float32) if soft else np.zeros((0, classes), np.float32),
        sources=np.array([CODES[row.source] for row in kept], np.uint8),
        shares=np.array([max(row.share, SHARE_MIN) for row in kept], np.float32),
        edge_labels=np.array([row.edge_label for row in kept], np.int64),
        holdout=np.array([row.holdout for row in kept], np.bool_),
        captured=np.array([row.captured_at for row in kept], np.float64),
        ids=np.array([str(row.id) for row in kept], np.str_),
        devices=np.array([row.device for row in kept], np.str_),
        sites=np.array([row.site for row in kept], np.str_),
    )
    received = np.array([row.received_at for row in kept], np.float64)
    return Read(found, received, dict(sorted(excluded.items())))


def usual(rows: Sequence[StoredRow]) -> tuple[tuple[int, ...], int]:
    """The shape and the number of classes that most rows have."""
    shapes = Counter(row.payload.shape for row in rows)
    classes = Counter(len(row.probabilities) // 4 for row in rows)
    if not rows:
        return (), 0
    return (
        min(shapes, key=lambda shape: (-shapes[shape], shape)),
        min(classes, key=lambda count: (-classes[count], count)),
    )


def _doubtful(rows: Sequence[StoredRow], pictures: Sequence[bytes]) -> set[int]:
    """Numbers of rows of pictures that came more than once, and of which people say different things:
    nobody can learn both.
    """
    same: dict[bytes, list[int]] = {}
    for number, picture in enumerate(pictures):
        same.setdefault(picture, []).append(number)
    return {
        number
        for numbers in same.values()
        if len({rows[one].label for one in numbers if rows[one].source is Source.PERSON}) > 1
        for number in numbers
    }


def _tensor(
    row: StoredRow, shape: tuple[int, ...], classes: int, decoder: Decoder, excluded: Counter[str]
) -> NDArray[np.uint8] | None:
    if row.payload.shape != shape:
        excluded[OTHER_SHAPE] += 1
    elif len(row.probabilities) != 4 * classes:
        excluded[OTHER_CLASSES] += 1
    elif not 0 <= row.label < classes:
        excluded[LABEL_OUTSIDE] += 1
    else:
        try:
            return decoder.decode(row.payload)
        except Unknown:
            excluded[NO_DICTIONARY] += 1
        except (Malformed, TooLarge):
            excluded[UNREADABLE] += 1
    return None
