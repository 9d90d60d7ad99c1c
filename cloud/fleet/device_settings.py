"""Settings of what the fleet keeps about devices."""

from typing import Annotated

from pydantic import Field

from shared.config import Count, Positive, Section


class PresenceSettings(Section):
    """When a device flaps, and what then."""

    changes_max: Annotated[int, Field(ge=2, le=100)] = 10
    """Comings and goings within the window that are taken for bad luck. A restart of the broker
    makes two of each device."""
    window_s: Positive = 600.0
    """Seconds that a coming or going counts for."""
    quarantine_s: Positive = 1800.0
    """Seconds of the first quarantine; each further one is twice as long."""
    quarantine_s_max: Positive = 86_400.0
    """Seconds of the longest: somebody looks at it within a day."""
    forget_s: Positive = 7 * 86_400.0
    """Seconds since the last quarantine after which the next one is a first one again."""


class DeviceSettings(Section):
    """Who may be in the fleet, and how much of it is kept."""

    needs_enrolment: bool = True
    """False: a device that says something is in the fleet by that, as the broker's passwords or an
    open broker let it."""
    devices_max: Count = 100_000
    """Devices; about 3 KB each in the store."""
    labels_max: Annotated[int, Field(gt=0, le=32)] = 32
    """Of one device."""
    groups_max: Annotated[int, Field(gt=0, le=1000)] = 200
    """Groups; each is tried on each device whose labels change."""
    profiles_max: Count = 1_000
    """Versions of device profiles, all names together."""
    tokens_max: Count = 10_000
    """Enrolment tokens that are neither used nor over: a delivery of devices."""
    token_ttl_s_max: Positive = 30 * 86_400.0
    """Seconds until a token is over, at most: a parcel's way."""
    certificates_max: Annotated[int, Field(gt=1)] = 50
    """Of one device, neither expired nor revoked: who renews all the time is stopped here."""
    certificates_kept_s: Positive = 400 * 86_400.0
    """Seconds after its end that a certificate is kept: a revoked one must stay known for as long as
    an expired one may be renewed."""
    events_max: Annotated[int, Field(ge=100)] = 100_000
    """Lines of the log, about 0.3 KB each; the oldest goes out."""
    rollouts_max: Annotated[int, Field(ge=10)] = 500
    """Rollouts, ended ones counted; of these the oldest goes out with its devices."""
    presence: PresenceSettings = PresenceSettings()
