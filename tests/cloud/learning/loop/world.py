"""Everybody whom a cycle asks, in memory: what was made by which name, and how often it was asked."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cloud.feedback.documents import DataSetVersion
from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.hands import Hands
from cloud.monitoring.drift.documents import Accuracy, Alarm
from cloud.registry.documents import State
from cloud.rollouts.documents import RolloutStatus
from cloud.training.documents import JobState
from shared.errors import Disconnected
from tests.cloud.learning.loop.cycles import BETTER, GOOD, data_set, job


@dataclass
class World:
    """As real ones it finds again what was made by a name, a key or a seed. It moves by one step each
    time that it is looked at.
    """

    samples: int = 600
    people: e.Paired = BETTER
    figures: Mapping[str, float] = field(default_factory=lambda: dict(GOOD))
    data_sets: dict[str, DataSetVersion] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    """State by key."""
    evaluations: dict[str, str] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)
    rollouts: dict[str, str] = field(default_factory=dict)
    """Status by seed."""
    made: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    on: tuple[Alarm, ...] = ()
    accuracy_seen: Accuracy | None = None
    signs: bool = True
    away: set[str] = field(default_factory=set)
    """Who cannot be reached."""
    hangs: set[str] = field(default_factory=set)
    """Who never answers: the queue, when it is looked at, the fleet, when it is asked for alarms."""
    awaited: dict[tuple[str, int], asyncio.Event] = field(default_factory=dict)

    def hands(self) -> Hands:
        return Hands(_Samples(self), _Jobs(self), _Versions(self), _Rollouts(self))

    async def until_asked(self, who: str, times: int) -> None:
        """From then on."""
        await self.awaited.setdefault((who, self.asked[who] + times), asyncio.Event()).wait()

    def check(self, who: str) -> None:
        self.asked[who] += 1
        if (event := self.awaited.get((who, self.asked[who]))) is not None:
            event.set()
        if who in self.away:
            raise Disconnected(f"the {who} cannot be reached")


class _Samples:
    def __init__(self, world: World) -> None:
        self._world = world

    async def counted(self, _: c.Count) -> e.Counted:
        self._world.check("feedback")
        return e.Counted(self._world.samples, self._world.people)

    async def built(self, command: c.Build) -> e.Built:
        world = self._world
        world.check("feedback")
        if command.name not in world.data_sets:
            world.made["data set"] += 1
            world.data_sets[command.name] = data_set().model_copy(update={"name": command.name})
        return e.Built(world.data_sets[command.name])

    async def new_since(self, model: str, since: float | None) -> int:
        return self._world.samples


class _Jobs:
    def __init__(self, world: World) -> None:
        self._world = world

    async def submitted(self, command: c.Submit) -> e.Submitted:
        world = self._world
        world.check("queue")
        if command.key not in world.jobs:
            world.made["job"] += 1
            world.jobs[command.key] = "queued"
        return e.Submitted(f"job-of-{command.key}")

    async def seen(self, command: c.WatchJob) -> e.JobSeen:
        world, key = self._world, command.job.removeprefix("job-of-")
        world.check("queue")
        if "queue" in world.hangs:
            await asyncio.Event().wait()
        state = world.jobs[key]
        if state == "done":
            world.states.setdefault("1.0.1", State.TRAINED)
            return e.JobSeen(job(), world.figures)
        world.jobs[key] = {"queued": "running", "running": "done"}.get(state, state)
        return e.JobSeen(job(JobState(state)))

    async def cancelled(self, command: c.CancelJob) -> e.CleanedUp:
        world = self._world
        world.check("queue")
        if command.key in world.jobs:
            world.jobs[command.key] = "cancelled"
        return e.CleanedUp()


class _Versions:
    def __init__(self, world: World) -> None:
        self._world = world

    async def current(self, model: str) -> str | None:
        return "1.0.0"

    async def chosen(self, _: c.Choose) -> e.Chosen:
        self._world.check("registry")
        return e.Chosen("1.0.0", "2.0.0", "1.0.1")

    async def evaluated(self, command: c.Evaluate) -> e.EvaluationSeen:
        world = self._world
        world.check("registry")
        if command.version not in world.evaluations:
            world.made["evaluation"] += 1
            world.evaluations[command.version] = "queued"
        return e.EvaluationSeen("e-1", world.evaluations[command.version])

    async def evaluation(self, command: c.WatchEvaluation) -> e.EvaluationSeen:
        world = self._world
        world.check("registry")
        before = world.evaluations[command.version]
        world.evaluations[command.version] = {"queued": "running", "running": "passed"}.get(
            before, before
        )
        if before == "passed":
            world.states[command.version] = State.CANDIDATE
        return e.EvaluationSeen("e-1", before)

    async def approved(self, command: c.Approve) -> e.VersionSeen:
        world = self._world
        world.check("registry")
        if command.version not in world.approved:
            world.made["approval"] += 1
            world.approved.add(command.version)
        return self._seen(command.version)

    async def released(self, command: c.Release) -> e.VersionSeen:
        world = self._world
        world.check("registry")
        if world.states[command.version] is not State.RELEASED:
            world.made["release"] += 1
            world.states[command.version] = State.RELEASED
        return self._seen(command.version)

    async def version(self, command: c.WatchVersion) -> e.VersionSeen:
        self._world.check("registry")
        return self._seen(command.version)

    async def rejected(self, command: c.Reject) -> e.CleanedUp:
        world = self._world
        world.check("registry")
        if world.states.get(command.version) is not State.REJECTED:
            world.made["rejection"] += 1
            world.states[command.version] = State.REJECTED
        return e.CleanedUp()

    def _seen(self, version: str) -> e.VersionSeen:
        return e.VersionSeen(self._world.states[version], version in self._world.approved)


class _Rollouts:
    def __init__(self, world: World) -> None:
        self._world = world

    async def rolled(self, command: c.Roll) -> e.RolloutMade:
        world = self._world
        world.check("fleet")
        if command.seed not in world.rollouts:
            world.made["rollout"] += 1
            world.rollouts[command.seed] = "running"
        return e.RolloutMade(f"r-{command.seed}")

    async def seen(self, command: c.WatchRollout) -> e.RolloutSeen:
        world = self._world
        world.check("fleet")
        assert command.rollout is not None
        seed = command.rollout.removeprefix("r-")
        before = world.rollouts[seed]
        if before == "running":
            world.rollouts[seed] = "succeeded"
        return e.RolloutSeen(RolloutStatus(before))

    async def undone(self, command: c.Undo) -> e.CleanedUp:
        world = self._world
        world.check("fleet")
        world.made["undo"] += 1
        world.rollouts[command.rollout.removeprefix("r-")] = "rolled_back"
        return e.CleanedUp()

    async def alarms(self, model: str) -> tuple[Alarm, ...]:
        self._world.check("fleet")
        if "fleet" in self._world.hangs:
            await asyncio.Event().wait()
        return self._world.on

    async def accuracy(self, model: str, version: str, group: str) -> Accuracy | None:
        return self._world.accuracy_seen
