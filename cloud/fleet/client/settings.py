"""Settings of who asks a fleet."""

from pydantic import Field

from cloud.registry.client.settings import ClientSettings
from shared.config import Count, Positive


class FleetClientSettings(ClientSettings):
    """Bounds of one client's calls."""

    page: Count = Field(default=1000, le=10_000)
    """Devices asked for at once. Default: a page with certificates stays under 4 MB."""
    devices_max: Count = 1_000_000
    """Read of one list, in pages. Default: ten times the largest fleet that is simulated."""
    wait_s: Positive = 10.0
    """A long poll is answered after so long at the latest. Default: well under `silence_s_max`."""
