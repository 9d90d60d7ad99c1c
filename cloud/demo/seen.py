"""What an application saw of each image: the demo's measurements. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Seen:
    """What the application saw of N images; times are its own, in milliseconds.

    `final_label` is -1 where no final answer came. An answer may be final at once.
    """

    first_label: NDArray[np.int64]
    confidence: NDArray[np.float64]  # of the first answer
    first_ms: NDArray[np.float64]
    final_label: NDArray[np.int64]
    final_ms: NDArray[np.float64]
    uplink_bytes: NDArray[np.int64]
    escalated: NDArray[np.bool_]  # audits included

    @classmethod
    def nothing(cls, count: int) -> "Seen":
        return cls(
            np.full(count, -1), np.zeros(count), np.zeros(count), np.full(count, -1),
            np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.bool_),
        )  # fmt: skip
