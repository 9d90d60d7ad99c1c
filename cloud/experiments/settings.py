"""The `[[experiments]]` of a worker."""

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from shared.bundle.manifest import Name, Version
from shared.config import Section


class Arm(Section):
    version: Version
    """Of the experiment's model; the worker must have it (`models`)."""
    share: Annotated[float, Field(gt=0, lt=1)]
    """Of users and devices, not of requests."""


class Experiment(Section):
    name: Name
    """Places users and devices: an experiment of another name places them anew."""
    model: Name
    """Whose calls are placed: those that name no version, and escalations that it answers."""
    arms: Annotated[tuple[Arm, ...], Field(min_length=2, max_length=8)]
    """The first is the control. Moving share from one arm to its neighbour moves only those."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        total = math.fsum(arm.share for arm in self.arms)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"{self.name}: the shares of its arms are {total:g} in sum; make it 1")
        if len({arm.version for arm in self.arms}) < len(self.arms):
            raise ValueError(f"{self.name}: two arms have the same version; name others")
        return self
