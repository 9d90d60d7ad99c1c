"""A device profile: the agent's settings that a region may change while it runs. Versioned.

What is None stays as the device's own file has it.
"""

import hashlib
import json
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator

from shared.bundle.manifest import Share
from shared.fleet.document import Document

TimeSpan = Annotated[
    str, StringConstraints(pattern=r"^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$")
]
_Rate = Annotated[float, Field(gt=0, le=1e9)]


class ProfileSettings(Document):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    threshold: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")] | None = None
    """A name in the bundle's threshold table."""
    confidence_min: Annotated[float, Field(ge=0, le=2)] | None = None
    """Escalate below this instead of a named threshold. Over 1: everything."""
    audit_share: Share | None = None
    """Of confident samples."""
    novelty: bool | None = None
    """Whether inputs unlike the bundle's reference are escalated, and raise audits."""
    novelty_audit_share: Share | None = None
    """Of confident samples, while inputs are novel."""
    samples_per_s: _Rate | None = None
    """Escalations a second."""
    bytes_per_s: _Rate | None = None
    """MQTT payload bytes a second."""
    telemetry_s: Annotated[float, Field(ge=1, le=86_400)] | None = None
    """Seconds between two telemetry reports."""
    update_windows: Annotated[tuple[TimeSpan, ...], Field(max_length=16)] | None = None
    """When downloads may run, in the device's own time zone."""
    update_bytes_per_s: Annotated[float, Field(ge=1024, le=1e9)] | None = None
    """Of downloads."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None

    @field_validator("update_windows")
    @classmethod
    def _hours(cls, spans: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for span in spans or ():
            if any(edge[:2] > "23" for edge in span.split("-")):
                raise ValueError(f"{span}: hours end at 23")
        return spans

    @model_validator(mode="after")
    def _one_threshold(self) -> Self:
        if self.threshold is not None and self.confidence_min is not None:
            raise ValueError("set threshold or confidence_min, not both")
        return self


def digest(settings: ProfileSettings) -> str:
    """SHA-256 in hex of the settings that are set, as canonical JSON."""
    tree = settings.model_dump(mode="json", exclude_none=True)
    return hashlib.sha256(
        json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
