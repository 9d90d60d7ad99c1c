"""What an application might have seen, made up: ten classes, the right label is i modulo 10."""

import numpy as np
from numpy.typing import NDArray

from cloud.demo.seen import Seen

COUNT = 2_000
LABELS = np.arange(COUNT) % 10


def seen(
    wrong: int = 0, *, escalated: int = 0, unanswered: int = 0, first_wrong: int = 0, seed: int = 1
) -> Seen:
    """The first `wrong` after `first_wrong` are mistaken, the first `escalated` were sent."""
    rng = np.random.default_rng(seed)
    answers: NDArray[np.int64] = LABELS.copy()
    mistaken = slice(first_wrong, first_wrong + wrong)
    answers[mistaken] = (answers[mistaken] + 1) % 10
    final = answers.copy()
    if unanswered:
        final[-unanswered:] = -1
    sent = np.arange(COUNT) < escalated
    return Seen(
        first_label=answers,
        confidence=rng.random(COUNT),
        first_ms=rng.random(COUNT),
        final_label=final,
        final_ms=10 * rng.random(COUNT),
        uplink_bytes=np.where(sent, 300, 0),
        escalated=sent,
    )
