"""Which rows an epoch goes through, when there are more than it has time for. Pure.

Base data is plenty: each epoch takes others of it, which costs the same and forgets less than showing
the same ones again. What came from the field takes turns too, so that much of it does not drown the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of which each epoch shows so many: the next ones in their order, then from the first again."""

    rows: Tensor
    """Indices, int64."""
    each: int

    @property
    def per_epoch(self) -> int:
        return min(self.each, len(self.rows))

    def of_epoch(self, epoch: int) -> Tensor:
        """Indices, each once; `epoch` counts from 0."""
        places = torch.arange(epoch * self.per_epoch, (epoch + 1) * self.per_epoch)
        return self.rows[places % max(len(self.rows), 1)]


Turns = Sequence[Part]


def every(rows: int) -> Turns:
    """No turns: all rows in each epoch."""
    return (Part(torch.arange(rows), rows),)


def rows_per_epoch(turns: Turns) -> int:
    return sum(part.per_epoch for part in turns)


def rows_of_epoch(turns: Turns, epoch: int) -> Tensor:
    """Indices, each once if no two parts share any."""
    return torch.cat([part.of_epoch(epoch) for part in turns])
