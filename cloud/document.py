"""What the documents of the cloud's APIs have in common. Frozen, bounded, no I/O."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Actor = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""Who did it: the id of an API key, or a part of the system."""
DeviceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class Document(BaseModel):
    """Unknown members are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
