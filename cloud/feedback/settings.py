"""The `feedback` part of the learning process's configuration."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Positive, Section


class FeedbackSettings(Section):
    url: str | None = None
    """An SQLAlchemy URL: that of `store.url` of `hybridge-cloud serve`, whose samples these are.
    None: SQLite, `feedback.db` in the state directory, for one machine that has both."""
    kept_s: Positive | None = 180 * 86_400.0
    """Seconds that a sample is kept, by when it was received: half a year of seasons. None: until
    the worker's `store.rows_max` or `store.bytes_max` takes it."""
    upkeep_every_s: Positive = 600.0
    """Seconds between two looks for samples that are too old, and for sites that changed."""
    data_sets_max: Annotated[int, Field(gt=0, le=100_000)] = 1_000
    """Versions of data sets, all names together; a loop makes one a cycle."""
    data_set_bytes_max: Annotated[int, Field(gt=0, le=2 * 1024**3)] = 512 * 1024**2
    """Of one data set, decoded: it is built in memory, twice that for a moment."""
    files_bytes_max: Count = 16 * 1024**3
    """Of the files of all data sets, packed. Fits a small disk beside the store."""
    page_max: Annotated[int, Field(gt=0, le=1_000)] = 500
    """Samples of one answer, of half a kilobyte each."""
    people_max: Annotated[int, Field(gt=0, le=1_000)] = 32
    """Who may label one sample; more would not make it clearer."""
    image_pixels_max: Annotated[int, Field(gt=0, le=2**24)] = 4_194_304
    """Of a sample that is drawn as a PNG; a larger one is fetched as a tensor."""
    log_lines_max: Count = 100_000
    """Deletions that are remembered."""
