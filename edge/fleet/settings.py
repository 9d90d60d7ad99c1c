"""The `fleet` part of the agent's settings."""

from typing import Annotated

from pydantic import Field

from shared.config import Section


class FleetSettings(Section):
    """With it the agent does what its region desires, and reports what it is and how it fares.

    Labels and group are the region's to give, not the device's to choose.
    """

    telemetry_s: Annotated[float, Field(ge=1, le=86_400)] = 30.0
    """Seconds between two telemetry reports; half a minute shows a bad model while it is on a few
    devices, and 2,000 devices are 70 reports a second. A device profile may change it."""
