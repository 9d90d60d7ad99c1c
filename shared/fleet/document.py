"""What every document of the fleet has in common: JSON, bounded, unknown members ignored."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from shared.config import in_words
from shared.errors import Malformed, TooLarge

Text = Annotated[str, StringConstraints(max_length=500)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Generation = Annotated[int, Field(ge=1, le=2**53)]
RolloutId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,79}$")]


class Document(BaseModel):
    """An old device meets a new region: what it does not know it ignores."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @classmethod
    def from_bytes(cls, content: bytes, bytes_max: int) -> Self:
        """Raises `TooLarge`, or `Malformed` in words."""
        if len(content) > bytes_max:
            raise TooLarge(f"{cls.__name__}: {len(content)} bytes; at most {bytes_max} are read")
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise Malformed(f"{cls.__name__}: {in_words(error)}") from error

    def to_bytes(self) -> bytes:
        return self.model_dump_json().encode()
