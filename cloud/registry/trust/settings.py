"""Which keys the registry holds, and for how long what it signs is believed."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from shared.config import Count, Section


class TrustSettings(Section):
    online_keys: Path | None = None
    """A folder with `snapshot.pem` and `timestamp.pem`, mode 0600; every `.pem` in it is loaded, so
    that old and new keys may lie side by side while they change. A `release.pem` there lets this
    registry release by itself; without one, each release is signed by an operator. None: nothing
    can be published (a replica needs no keys)."""
    password_file: Path | None = None
    """For keys with a password: its first line, mode 0600. None: the environment variable
    HYBRIDGE_KEY_PASSWORD, or keys without one."""
    timestamp_days: Annotated[float, Field(ge=1, le=14)] = 3.0
    """For which a timestamp is believed. So long may an attacker hold a device at an old release,
    and so long may this registry be away before devices refuse new releases."""
    timestamp_left_days: Annotated[float, Field(gt=0, le=14)] = 2.0
    """A new one is signed when less than this is left: a device whose clock is a day ahead still
    finds it valid."""
    snapshot_days: Annotated[float, Field(ge=2, le=90)] = 14.0
    """For which a snapshot is believed; a new one is signed at half of it."""
    model_days: Annotated[float, Field(ge=7, le=3_660)] = 365.0
    """For which a model's releases are believed that this registry signs with `release.pem`."""
    staged_max: Count = 2_000
    """Files that wait for more signatures. A change of the release key of every model has one for
    each."""

    @model_validator(mode="after")
    def _is_replaced_in_time(self) -> Self:
        if self.timestamp_left_days >= self.timestamp_days:
            raise ValueError(
                f"timestamp_left_days {self.timestamp_left_days:g} is not below timestamp_days "
                f"{self.timestamp_days:g}: a new one would be signed all the time"
            )
        return self
