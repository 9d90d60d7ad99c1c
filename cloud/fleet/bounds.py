"""What texts from operators may be, before they go into the store and onto terminals. Pure."""

import re
from datetime import UTC, datetime
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from cloud.document import DeviceName, Document
from cloud.fleet.documents import Labels
from shared.config import in_words
from shared.errors import Malformed

D = TypeVar("D", bound=Document)
WORDS_MAX: Final = 500
_BAD: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_LABELS: Final = TypeAdapter[dict[str, str]](Labels)
_DEVICE: Final = TypeAdapter[str](DeviceName)


def shown(text: str) -> str:
    """As messages may repeat it."""
    return repr(text[:80])


def utc_text(at: float) -> str:
    """Unix seconds as people read them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def checked_words(text: str, what: str, least: int = 0) -> str:
    """One line of at most `WORDS_MAX` characters. Raises `Malformed`."""
    if not least <= len(text) <= WORDS_MAX:
        raise Malformed(f"{what} has {len(text)} characters; {least} to {WORDS_MAX} are taken")
    if found := _BAD.search(text):
        raise Malformed(
            f"{what} has the control character U+{ord(found[0]):04X} in {shown(text)}; remove it"
        )
    return text


def checked_actor(actor: str) -> str:
    """Raises `Malformed`."""
    checked_words(actor, "the caller's name", 1)
    if len(actor) > 200:
        raise Malformed(f"the caller's name has {len(actor)} characters; 1 to 200 are taken")
    return actor


def made(kind: type[D], **values: object) -> D:
    """A document of an operator's words. Raises `Malformed`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise Malformed(f"{kind.__name__.lower()}: {in_words(error)}") from error


def is_name(text: str) -> bool:
    """Of a group, a profile, a model."""
    return _NAME.fullmatch(text) is not None


def is_device(text: str) -> bool:
    try:
        _DEVICE.validate_python(text)
    except ValidationError:
        return False
    return True


def checked_labels(labels: dict[str, str], labels_max: int) -> dict[str, str]:
    """In the order of names. Raises `Malformed`."""
    try:
        found = _LABELS.validate_python(labels)
    except ValidationError as error:
        raise Malformed(
            f"labels: {in_words(error)}; names are 1 to 63 of a-z, 0-9, '.', '_', '-', values of "
            "letters, digits, '.', '_', '-'"
        ) from error
    if len(found) > labels_max:
        raise Malformed(f"labels: {len(found)} of them; a device has at most {labels_max}")
    return dict(sorted(found.items()))
