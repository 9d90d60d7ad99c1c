"""How often in a row each job met a disk, a store or a registry that is away. Pure."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

_JOBS_MAX: Final = 1000
"""Those that met one last: a job that was cancelled meanwhile never comes back to be forgotten."""


@dataclass(slots=True)
class Aways:
    """Of one worker."""

    times: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def again(self, job: str) -> int:
        """How many times it was so by now, this one too."""
        self.times[job] = self.times.pop(job, 0) + 1
        while len(self.times) > _JOBS_MAX:
            self.times.popitem(last=False)
        return self.times[job]

    def over(self, job: str) -> None:
        """It ended, or went back for another reason."""
        self.times.pop(job, None)
