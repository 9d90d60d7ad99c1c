"""What `hybridge capacity measure` found, as a JSON file that the other commands read."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.config import in_words
from shared.errors import Malformed

_BYTES_MAX = 1024 * 1024
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrialFigures(BaseModel):
    """One rate that was tried; see `cloud.capacity.search.Trial`."""

    model_config = ConfigDict(frozen=True)

    asked_qps: _Number
    answered_qps: _Number
    refused_share: _Number
    p50_ms: _Number
    p99_ms: _Number
    lag_ms: _Number
    kept: bool


class Measured(BaseModel):
    """Rates are requests a second, of `rows` rows each."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    model: str = Field(max_length=256)
    model_version: str = Field(max_length=256)
    url: str = Field(max_length=300)
    measured_at: str = Field(max_length=40)
    rows: Annotated[int, Field(gt=0)]
    seconds: _Number
    """Of each trial."""
    sla_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    qps_at_sla: _Number
    """Highest rate tried at which p99 was within `sla_ms` and next to nothing was refused."""
    qps_max: _Number
    """Most answers a second at any rate, however late."""
    held_back_by_generator: bool
    """The load generator was late itself where the server seemed to fail: there is more in it."""
    trials: tuple[TrialFigures, ...] = Field(max_length=1000)


def write_measured(path: Path, measured: Measured) -> None:
    """Raises OSError."""
    path.write_text(measured.model_dump_json(indent=2) + "\n", "utf-8")


def read_measured(path: Path) -> Measured:
    """Raises `Malformed`."""
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise Malformed(
            f"{path}: {error.strerror}; `hybridge capacity measure --out` writes it"
        ) from error
    if len(text) > _BYTES_MAX:
        raise Malformed(
            f"{path}: over {_BYTES_MAX} bytes: no result of `hybridge capacity measure`"
        )
    try:
        return Measured.model_validate_json(text)
    except ValidationError as error:
        raise Malformed(f"{path}: {in_words(error)}") from error
