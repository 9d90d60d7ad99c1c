"""Which jobs start where, and which give their place. Pure, deterministic, linear in the jobs.

Jobs go by priority, which rises by one with each `aging_s` of waiting; among equals, the team with
the least CPUs for its weight is next (weighted max-min fairness by progressive filling: Ghodsi et
al. 2011, "Dominant Resource Fairness", section 4.1, with CPUs as the one resource), and in a team
the oldest. A job that does not fit lets smaller ones pass (backfilling), until it has waited for
`reserve_after_s`: then a place is kept for it (Lifka 1995, "The ANL/IBM SP Scheduling System").
Who has the higher priority may stop others for his place, where that makes it at once.

No job starves: `bound_s`.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import groupby

from cloud.training.queue.floor import Floor
from cloud.training.queue.parties import (
    LEVELS,
    Decision,
    Place,
    Preemption,
    Rules,
    Running,
    Share,
    Start,
    Waiting,
    level,
)


def bound_s(rules: Rules, ahead: int, cpus: int, duration_s_max: float) -> float:
    """Within how many seconds a job begins that a worker is big enough for and its team's quota has
    room for at all: after `LEVELS * aging_s` nothing submitted later is before it, so that only
    `ahead` jobs are, of `duration_s_max` of work and of stopping each; and the place that is kept
    for it only grows, by a CPU at least whenever it moves.
    """
    return LEVELS * rules.aging_s + rules.reserve_after_s + (ahead + cpus) * duration_s_max


def schedule(
    jobs: Iterable[Waiting],
    running: Iterable[Running],
    workers: Iterable[Place],
    quotas: Iterable[Share],
    default: Share,
    rules: Rules,
    now: float,
) -> Decision:
    """`default`: what a team without a quota has. `running`: also on workers that are not among
    `workers`; they count for their teams.
    """
    floor = Floor(running, workers, quotas, default)
    starts: list[Start] = []
    preemptions: list[Preemption] = []
    reasons: dict[str, str] = {}
    order: list[str] = []
    for job in _in_turn(jobs, floor, rules, now):
        order.append(job.id)
        if floor.over_quota(job):
            if victims := floor.victims(job, rules, now):
                preemptions += floor.make_way(job, victims)
            reasons[job.id] = floor.why_over(job)
        elif (worker := floor.fit(job)) is not None:
            floor.start(job, worker)
            starts.append(Start(job.id, worker))
        elif victims := floor.victims(job, rules, now):
            preemptions += floor.make_way(job, victims)
            reasons[job.id] = f"{', '.join(one.id for one in victims)} gives its place to it"
        else:
            if now - job.since >= rules.reserve_after_s or floor.comes_free(job):
                floor.reserve(job)
            reasons[job.id] = floor.why_no_room(job)
    return Decision(tuple(starts), tuple(preemptions), reasons, tuple(order))


def _in_turn(jobs: Iterable[Waiting], floor: Floor, rules: Rules, now: float) -> Iterator[Waiting]:
    """By level; in one, always of the team that has the least, whatever became of the one before."""
    ranked = sorted(
        ((-level(job.priority, now - job.since, rules.aging_s), job.team, job.since, job.id, job)
         for job in jobs),
        key=lambda entry: entry[:4],
    )  # fmt: skip
    for _, equals in groupby(ranked, key=lambda entry: entry[0]):
        teams = {
            team: [entry[4] for entry in entries]
            for team, entries in groupby(equals, key=lambda entry: entry[1])
        }
        heap: list[tuple[float, str, int]] = []
        for team in teams:
            heappush(heap, (floor.share(team), team, 0))
        while heap:
            _, team, at = heappop(heap)
            yield teams[team][at]
            if at + 1 < len(teams[team]):
                heappush(heap, (floor.share(team), team, at + 1))
