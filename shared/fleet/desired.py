"""What a device should be: one retained message a section, each with a generation of its own.

`hy/v1/{device}/down/desired/{section}`. A device takes a section when its generation is higher
than that of the last one it took, which it keeps on disk; so copies and old ones change nothing,
and whoever was away for weeks has all of it with one subscription. Only sections that change are
sent.
"""

from typing import Annotated, Literal

from pydantic import Field

from shared.bundle.manifest import Name, Sha256, Share, Version
from shared.fleet.document import Document, Generation, RolloutId
from shared.fleet.profile import ProfileSettings

Section = Literal["model", "profile"]
SECTIONS: tuple[Section, ...] = ("model", "profile")
BYTES_MAX = 8 * 1024

Stage = Literal["shadow", "live"]


class DesiredModel(Document):
    """Which released version to run. The signed metadata still has the last word: a version that
    it does not name is refused, whoever desires it.
    """

    generation: Generation
    model: Name
    version: Version
    manifest_sha256: Sha256
    stage: Stage = "live"
    """shadow: fetch, verify, probe and run it beside the active one, but do not activate it."""
    rollout: RolloutId | None = None
    """None: what the device's group has; nobody watches it closely."""
    attempt: Annotated[int, Field(ge=1, le=1000)] = 1
    """A version that this device refused or failed is tried again only when this rises."""
    undo: bool = False
    """Go back to this version at once when it is still installed, without another trial."""
    audit_share: Share | None = None
    """Of confident samples, while evidence is gathered; None: as configured."""


class DesiredProfile(Document):
    """Which device profile to apply: `firmware_configs/profiles/`."""

    generation: Generation
    name: Name
    version: Annotated[int, Field(ge=1, le=10**6)]
    sha256: Sha256
    """Of the settings, as `shared.fleet.profile.digest` gives it; checked by the device."""
    settings: ProfileSettings
    rollout: RolloutId | None = None
    attempt: Annotated[int, Field(ge=1, le=1000)] = 1
