"""The CPUs of all workers and teams while jobs are looked at one by one: what is free, what comes free,
and what is kept for whom. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cloud.training.queue.parties import (
    Place,
    Preemption,
    Rules,
    Running,
    Share,
    Waiting,
    level,
)

_ANY: Final = 1 << 31


@dataclass(slots=True)
class _Room:
    """A worker's CPUs."""

    cpus: int
    free: int
    coming: int = 0
    """Of jobs that were told to stop."""
    held: int = 0
    """For jobs that wait and are before all that are still looked at."""
    jobs: list[Running] = field(default_factory=list)

    @property
    def open(self) -> int:
        """CPUs that a job may have that is behind those for which some are held."""
        return min(self.free, self.free + self.coming - self.held)

    @property
    def soon(self) -> int:
        return self.free + self.coming - self.held


class Floor:
    """What is taken, while the jobs are looked at one by one."""

    def __init__(
        self,
        running: Iterable[Running],
        workers: Iterable[Place],
        quotas: Iterable[Share],
        default: Share,
    ) -> None:
        self._quotas = {one.team: one for one in quotas}
        self._default = default
        self._rooms = {
            one.name: _Room(one.cpus, one.cpus) for one in sorted(workers, key=lambda one: one.name)
        }
        self._used: dict[str, int] = {}
        self._stopped: set[str] = set()
        # what was refused before is refused at once: room gets less while jobs are looked at
        self._lacking = self._lacking_soon = self._lacking_place = _ANY
        self._lacking_victims: dict[tuple[int, str | None], int] = {}
        for job in sorted(running, key=lambda one: one.id):
            self._used[job.team] = self._used.get(job.team, 0) + job.cpus
            if (room := self._rooms.get(job.worker)) is not None:
                room.free -= job.cpus
                room.coming += job.cpus if job.stopping else 0
                room.jobs.append(job)
        self._biggest = max((room.cpus for room in self._rooms.values()), default=0)

    def quota(self, team: str) -> Share:
        return self._quotas.get(team, self._default)

    def share(self, team: str) -> float:
        """CPUs for one of weight."""
        return self._used.get(team, 0) / self.quota(team).weight

    def over_quota(self, job: Waiting) -> bool:
        return self._used.get(job.team, 0) + job.cpus > self.quota(job.team).cpus_max

    def fit(self, job: Waiting) -> str | None:
        """The worker on which it leaves the least open: bigger holes stay for bigger jobs. One for which
        something was away goes round all that have room, by name: it may be there for another one.
        """
        if job.cpus >= self._lacking:
            return None
        found = [
            (room.open, name) for name, room in self._rooms.items() if room.open >= job.cpus
        ]  # fmt: skip
        if found and job.away_at:
            return min((name <= job.away_at, name) for _, name in found)[1]
        if found:
            return min(found)[1]
        self._lacking = job.cpus
        return None

    def start(self, job: Waiting, worker: str) -> None:
        self._used[job.team] = self._used.get(job.team, 0) + job.cpus
        self._rooms[worker].free -= job.cpus

    def victims(self, job: Waiting, rules: Rules, now: float) -> list[Running]:
        """Those whose CPUs make its place on one worker, and its team's quota: as unimportant and as
        few as may be. None where that would not do, or what is stopping already does.
        """
        over = self._used.get(job.team, 0) + job.cpus - self.quota(job.team).cpus_max
        key = (job.priority, job.team if over > 0 else None)
        if job.cpus >= self._lacking_victims.get(key, _ANY):
            return []
        best: tuple[tuple[int, int, int, str], list[Running]] | None = None
        for name, room in self._rooms.items():
            if room.cpus < job.cpus:
                continue
            coming = sum(one.cpus for one in room.jobs if one.team == job.team and self._stops(one))
            lacks, lacks_quota = job.cpus - room.soon, over - coming
            if lacks <= 0 and lacks_quota <= 0:
                return []
            chosen = _chosen(
                [one for one in room.jobs if self._may_stop(one, job, rules, now)],
                job.team, lacks, lacks_quota,
            )  # fmt: skip
            if chosen:
                rank = (
                    max(one.priority for one in chosen), len(chosen),
                    sum(one.cpus for one in chosen), name,
                )  # fmt: skip
                if best is None or rank < best[0]:
                    best = rank, chosen
        if best is None:
            self._lacking_victims[key] = job.cpus
            return []
        return best[1]

    def _stops(self, one: Running) -> bool:
        return one.stopping or one.id in self._stopped

    def _may_stop(self, one: Running, job: Waiting, rules: Rules, now: float) -> bool:
        """By the priorities that were asked for: whoever has waited long stops nobody."""
        if one.priority >= job.priority or self._stops(one):
            return False
        gave = one.preempted_at is not None and now - one.preempted_at < rules.preempt_pause_s
        counts = level(job.priority, now - job.since, rules.aging_s)
        had_waited = one.level >= counts and now - one.began_at < rules.preempt_pause_s
        return not gave and not had_waited

    def make_way(self, job: Waiting, victims: Sequence[Running]) -> list[Preemption]:
        room = self._rooms[victims[0].worker]
        for one in victims:
            self._stopped.add(one.id)
            room.coming += one.cpus
        room.held += job.cpus
        self._lacking = self._lacking_soon = _ANY  # a big one may leave more than is held
        self._lacking_victims.clear()
        return [Preemption(one.id, job.id) for one in victims]

    def comes_free(self, job: Waiting) -> bool:
        """Somebody was stopped for it before."""
        if job.cpus >= self._lacking_soon:
            return False
        if any(room.coming and room.soon >= job.cpus for room in self._rooms.values()):
            return True
        self._lacking_soon = job.cpus
        return False

    def reserve(self, job: Waiting) -> None:
        """Keep it a place, where most is open."""
        if job.cpus >= self._lacking_place:
            return
        rooms = [
            (-room.soon, name)
            for name, room in self._rooms.items()
            if room.cpus - room.held >= job.cpus
        ]
        if rooms:
            self._rooms[min(rooms)[1]].held += job.cpus
        else:
            self._lacking_place = job.cpus

    def why_over(self, job: Waiting) -> str:
        quota = self.quota(job.team)
        return (
            f"team {job.team} uses {self._used.get(job.team, 0)} of its {quota.cpus_max} CPUs; "
            f"this takes {job.cpus}"
        )

    def why_no_room(self, job: Waiting) -> str:
        if not self._rooms:
            return "no worker is there; start `hybridge-cloud train-worker`"
        if not self._biggest:
            return "no worker takes jobs now; `hybridge train workers` says why"
        if job.cpus > self._biggest:
            return (
                f"it asks for {job.cpus} CPUs, the biggest worker has {self._biggest}; ask for less, "
                "or start a bigger one"
            )
        return f"no worker has {job.cpus} CPUs free"


def _chosen(
    candidates: Iterable[Running], team: str, lacks: int, lacks_quota: int
) -> list[Running]:
    """The least important, of them the youngest, until it is enough; then without those that were
    not needed. Empty where all of them are not enough.
    """
    chosen: list[Running] = []

    def enough(some: Sequence[Running]) -> bool:
        return sum(one.cpus for one in some) >= lacks and (
            sum(one.cpus for one in some if one.team == team) >= lacks_quota
        )

    for one in sorted(candidates, key=lambda one: (one.priority, -one.began_at, one.id)):
        chosen.append(one)
        if enough(chosen):
            break
    else:
        return []
    for one in list(reversed(chosen)):
        rest = [other for other in chosen if other is not one]
        if rest and enough(rest):
            chosen = rest
    return chosen
