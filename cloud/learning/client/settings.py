"""Settings of who asks a learning process."""

from pydantic import Field

from cloud.registry.client.settings import ClientSettings
from shared.config import Count, Positive


class LearningClientSettings(ClientSettings):
    """Bounds of one client's calls."""

    page: Count = Field(default=500, le=1000)
    """Samples, jobs, lines asked for at once. Default: a page of samples stays under 1 MB."""
    rows_max: Count = 100_000
    """Read of one list, in pages. Default: more than a person looks through; a program narrows it."""
    wait_s: Positive = 10.0
    """A long poll is answered after so long at the latest. Default: well under `silence_s_max`."""
    file_bytes_max: Count = 4 * 1024 * 1024 * 1024
    """Of a data set or an artifact that is fetched. Default: 1,000,000 rows of 4 KB."""
