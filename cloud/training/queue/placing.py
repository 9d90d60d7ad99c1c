"""The scheduler over the store: what waits and what is there, and its decision."""

from sqlalchemy import Connection

from cloud.training.queue.parties import Decision, Rules, Share
from cloud.training.queue.scheduling import schedule
from cloud.training.queue.settings import Training
from cloud.training.store import job_rows, place_rows


def rules_of(settings: Training) -> Rules:
    return Rules(settings.aging_s, settings.reserve_after_s, settings.preempt_pause_s)


def decide(connection: Connection, settings: Training, now: float) -> Decision:
    """For all workers that live; a worker acts on its own part of it."""
    return schedule(
        job_rows.waiting(connection, now),
        job_rows.running(connection),
        place_rows.alive(connection, now - settings.lease_s),
        [Share(one.team, one.cpus_max, one.weight) for one in place_rows.quotas(connection)],
        Share("", settings.team_cpus_max),
        rules_of(settings),
        now,
    )
