"""Whom a cycle has things done by. Each is asked by commands and gives answers, at least once each.

Everything raises `shared.errors.Refused` for what will be refused again, `Unavailable` for what may
be done later.
"""

from typing import Protocol

from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.monitoring.drift.documents import Accuracy, Alarm


class Samples(Protocol):
    """The feedback store."""

    async def counted(self, command: c.Count) -> e.Counted: ...

    async def built(self, command: c.Build) -> e.Built: ...

    async def new_since(self, model: str, since: float | None) -> int:
        """Samples that came since then and that a cycle of the model's loop would take."""
        ...


class Jobs(Protocol):
    """The queue of training jobs."""

    async def submitted(self, command: c.Submit) -> e.Submitted: ...

    async def seen(self, command: c.WatchJob) -> e.JobSeen: ...

    async def cancelled(self, command: c.CancelJob) -> e.CleanedUp: ...


class Versions(Protocol):
    """The registry."""

    async def chosen(self, command: c.Choose) -> e.Chosen: ...

    async def evaluated(self, command: c.Evaluate) -> e.EvaluationSeen: ...

    async def evaluation(self, command: c.WatchEvaluation) -> e.EvaluationSeen: ...

    async def approved(self, command: c.Approve) -> e.VersionSeen: ...

    async def released(self, command: c.Release) -> e.VersionSeen: ...

    async def version(self, command: c.WatchVersion) -> e.VersionSeen: ...

    async def rejected(self, command: c.Reject) -> e.CleanedUp: ...

    async def current(self, model: str) -> str | None:
        """The released version that devices take."""
        ...


class Rollouts(Protocol):
    """The fleet, or that there is none."""

    async def rolled(self, command: c.Roll) -> e.RolloutMade: ...

    async def seen(self, command: c.WatchRollout) -> e.RolloutSeen: ...

    async def undone(self, command: c.Undo) -> e.CleanedUp: ...

    async def alarms(self, model: str) -> tuple[Alarm, ...]:
        """Those on the model that are on."""
        ...

    async def accuracy(self, model: str, version: str, group: str) -> Accuracy | None:
        """Of the version on that group, by audits."""
        ...
