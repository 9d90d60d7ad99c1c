"""Settings of the catalog."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Positive, Section


class CatalogSettings(Section):
    """Where it lies, and how much it takes."""

    url: str | None = None
    """An SQLAlchemy URL, as `postgresql+psycopg://user@host/name`. None: SQLite in `state_dir`."""
    running_ttl_s: Positive = 30 * 86_400.0
    """A runner that said nothing for so many seconds holds no version any more. Longer than a
    device is away in a holiday; one that comes back later finds newer releases."""
    models_max: Count = 1_000
    """Models; each is a name on every list."""
    versions_max: Count = 10_000
    """Versions of one model, with the deleted ones: one an hour for a year."""
    data_sets_max: Count = 10_000
    """Data sets, each version counted."""
    evaluations_open_max: Count = 1_000
    """Evaluations that wait or run; a day's work of one machine."""
    attempts_max: Annotated[int, Field(gt=0, le=100)] = 3
    """Claims of one evaluation. An evaluator that dies of a version would die of it for ever."""
    runners_max: Count = 100_000
    """Devices and workers whose reports are kept, 0.5 KB each."""
    replicas_max: Count = 100
    """Replicas whose reports are kept."""
    deltas_max: Count = 16
    """Deltas that lead to one file: from the versions that devices may still have."""
    log_entries_max: Count = 10_000_000
    """Entries of the log, about 1 KB each: ten years of a busy registry. It cannot be cut short,
    only closed and begun anew."""
