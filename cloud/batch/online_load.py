"""What the online tier says about its load, in `GET /v1/status`; other members are ignored."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Milliseconds = Annotated[float, Field(ge=0)]


class OnlineLoad(BaseModel):
    """Of the last few seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    busy_share: Annotated[float, Field(ge=0, le=1)]
    """Share of time in which models ran, of the busiest worker."""
    queue_depth: Annotated[int, Field(ge=0)]
    """Interactive requests that wait now."""
    p99_ms: Milliseconds | None = None
    """Of interactive requests; None when there were none."""
    p99_target_ms: Milliseconds | None = None
