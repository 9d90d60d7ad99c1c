"""What the settings of both ends have in common: strict sections, read from TOML, worded errors."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.errors import Malformed

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
_FINDINGS_SHOWN = 20


class Section(BaseModel):
    """A part of a configuration: it never changes, and a name that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def read_toml(path: Path) -> dict[str, object]:
    """Raises `Malformed`."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}; name a readable TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"{path}: not TOML: {error}") from error


def in_words(error: ValidationError) -> str:
    """One line for what pydantic found: where, what, and what to do. No values: a secret. Of what
    is wrong all over the beginning: a hostile document has a mistake in every second byte.
    """
    count = error.error_count()
    found = error.errors(include_input=False, include_url=False, include_context=False)
    more = f"; and {count - _FINDINGS_SHOWN} more" if count > _FINDINGS_SHOWN else ""
    return "; ".join(_finding(one) for one in found[:_FINDINGS_SHOWN]) + more


def _finding(found: Mapping[str, object]) -> str:
    loc, message = found["loc"], str(found["msg"])
    assert isinstance(loc, tuple)
    where = ".".join(map(str, loc))
    match found["type"]:
        case "extra_forbidden":
            return f"{where}: no such setting; check its spelling or remove it"
        case "missing":
            return f"{where}: is missing; set it"
        case _:
            words = re.sub(r"^Value error, ", "", message)
            return f"{where}: {words}" if where else words  # of the document as a whole
