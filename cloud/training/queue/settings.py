"""The `training` part of the settings: the queue, its fairness and what is kept of it."""

from typing import Annotated

from pydantic import Field, StringConstraints

from cloud.training.documents import Quota
from shared.config import Count, Positive, Section


class Training(Section):
    """Read alike by the process `learning` and by each `train-worker`: the rules are one queue's."""

    url: Annotated[str, StringConstraints(max_length=500)] | None = None
    """The learning database, as SQLAlchemy has it. None: `learning.db` in `state_dir`; workers on
    other machines need PostgreSQL."""
    queued_max: Annotated[Count, Field(le=10_000)] = 1000
    """Jobs that wait, of all teams. Default: a year of them at one an eight hours."""
    team_cpus_max: Annotated[int, Field(ge=0, le=10_000)] = 10_000
    """CPUs that a team without a quota of its own may have at once. Default: whatever is free."""
    team_queued_max: Annotated[int, Field(ge=0, le=10_000)] = 100
    """Jobs that wait, of a team without a quota of its own."""
    quotas_max: Count = 1000
    """Teams with a quota of their own; each is read whenever jobs are placed."""
    aging_s: Positive = 1800.0
    """A job that waits rises by one priority in this time, without an end: after ten times this,
    nothing that comes later is before it. Default: half of a job's usual `max_duration_s`."""
    reserve_after_s: Annotated[float, Field(ge=0)] = 600.0
    """After this, the first job that no worker has room for is kept a place: smaller ones behind it
    no longer fill it. Default: what a small job takes."""
    preempt_pause_s: Annotated[float, Field(ge=0)] = 900.0
    """A job that gave its place is not stopped again for this long. Default: thirty checkpoints."""
    lease_s: Annotated[float, Field(gt=1, le=3600)] = 30.0
    """A worker that is not heard of for this long has lost its jobs. Default: thirty of its beats; a
    database that restarts takes less."""
    clock_off_s_max: Positive | None = None
    """Between the clock of a worker, or of the process `learning`, and the database's: whoever is further
    off takes no jobs. None: a sixth of `lease_s`."""
    retry_s_min: Positive = 10.0
    """Before the second attempt; it doubles from there."""
    retry_s_max: Positive = 600.0
    """Between two attempts at most: by then a disk or a network has been seen to."""
    kept_s: Positive = 90 * 86_400.0
    """A job that ended, with its run and artifacts, is kept this long. Default: a season to compare."""
    kept_max: Count = 10_000
    """Of jobs that ended; the oldest go first."""
    points_max: Annotated[Count, Field(ge=16)] = 2000
    """Of one metric of one run; beyond it every second one goes, so that older ones are thinner.
    Default: what a plot shows."""
    log_lines_max: Annotated[Count, Field(ge=16)] = 5000
    """Of one job; the oldest go first. Default: a MB at most."""
    workers_kept_s: Positive = 86_400.0
    """A worker that is gone is listed this long."""

    @property
    def clock_off_s(self) -> float:
        return self.clock_off_s_max or self.lease_s / 6

    def quota_of(self, team: str) -> Quota:
        """Of a team that has none of its own."""
        return Quota(team=team, cpus_max=self.team_cpus_max, queued_max=self.team_queued_max)
