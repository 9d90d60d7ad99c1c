"""The key file: one JSON object a line, `#` begins a comment line. Pure, texts in and out.

Of a key it has the SHA-256 only: a file that leaks gives nobody in. One that others may write
lets them in as whom they like, so `guarded_file` looks at its mode.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Self

from pydantic import AwareDatetime, Field, StringConstraints, ValidationError, field_validator

from cloud.gateway.api_key import ID_LENGTH
from cloud.gateway.rates import parse_rates
from cloud.gateway.roles import Role
from shared.config import Section, in_words
from shared.errors import Malformed, Unknown

KEYS_MAX: Final = 100_000
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"


class KeyLine(Section):
    """One key, as it is kept."""

    id: Annotated[str, StringConstraints(pattern=rf"^[0-9A-Za-z]{{{ID_LENGTH}}}$")]
    """Stands in the key itself; no secret."""
    name: Annotated[str, StringConstraints(pattern=NAME)]
    """Whose it is; one caller may have several, to change one for another."""
    roles: tuple[Role, ...] = Field(min_length=1, max_length=len(Role))
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """Of the whole key, hexadecimal."""
    created: AwareDatetime | None = None
    expires: AwareDatetime | None = None
    """None: never."""
    rate: str | None = None
    """`100/second; 10000/hour`. None: the gateway's default."""
    body_bytes_max: int | None = Field(default=None, gt=0)
    in_hand_max: int | None = Field(default=None, gt=0)
    """Requests at once. None: the gateway's default, as above."""

    @field_validator("rate")
    @classmethod
    def _is_a_rate(cls, rate: str | None) -> str | None:
        if rate is not None:
            try:
                parse_rates(rate)
            except Malformed as error:
                raise ValueError(str(error)) from error
        return rate

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.sha256)

    def is_expired(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now

    @classmethod
    def read(cls, line: str, at: str) -> Self:
        try:
            return cls.model_validate_json(line)
        except ValidationError as error:
            raise Malformed(f"{at}: {in_words(error)}; `hybridge key` writes such lines") from error


def parse(text: str, where: str) -> Mapping[str, KeyLine]:
    """Give the keys by their ids; `where` is the file's name, for messages.

    Raises:
        Malformed: names file, line and what to do about it; shows no digest.

    """
    keys: dict[str, KeyLine] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not _is_key(line):
            continue
        at = f"{where}, line {number}"
        key = KeyLine.read(line, at)
        if key.id in keys:
            raise Malformed(f"{at}: key {key.id} stands here a second time; delete one line")
        if len(keys) >= KEYS_MAX:
            raise Malformed(f"{at}: a file has up to {KEYS_MAX:,} keys; use tokens for so many")
        keys[key.id] = key
    return keys


def with_key(text: str, key: KeyLine, where: str) -> str:
    """Give the text with this key added; everything else stays as it was. Raises as `parse`."""
    before = text if not text or text.endswith("\n") else text + "\n"
    after = before + key.model_dump_json(exclude_none=True) + "\n"
    parse(after, where)
    return after


def without_key(text: str, id_or_name: str, where: str) -> tuple[str, KeyLine]:
    """Give the text without a key, and that key.

    Raises:
        Malformed: the text, or several keys have that name.
        Unknown: no key has that id or name.

    """
    keys = parse(text, where)
    found = [one for one in keys.values() if id_or_name in (one.id, one.name)]
    if not found:
        raise Unknown(f"{where}: no key {id_or_name!r}; nothing was changed")
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise Malformed(f"{where}: {id_or_name!r} has the keys {ids}; name one by its id")
    gone = found[0]
    kept = (
        line
        for number, line in enumerate(text.split("\n"), 1)
        if not _is_key(line) or KeyLine.read(line, f"{where}, line {number}").id != gone.id
    )
    return "\n".join(kept), gone


def _is_key(line: str) -> bool:
    return not re.match(r"\s*(#|\Z)", line)
