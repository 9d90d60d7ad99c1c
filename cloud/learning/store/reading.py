"""Stored documents as they are read back, also those that another version of this process wrote."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from pydantic import ValidationError

from cloud.document import Document
from shared.config import in_words
from shared.errors import Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)
_SAY_PERIOD_S: Final = 3600.0
Kept = TypeVar("Kept", bound=Document)
Row = TypeVar("Row")
Found = TypeVar("Found")


class Unreadable(Unavailable):
    """A stored document that this version of the process does not know; the one that wrote it does."""


def read(kind: type[Kept], text: str, what: str, instead: str) -> Kept:
    """Raises `Unreadable`, which names `what`; `instead`: what else helps."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise Unreadable(
            f"the learning database: {what} is not as this version keeps it ({in_words(error)[:500]}); "
            f"start the version that wrote it, or {instead}"
        ) from error


class Readable:
    """Those of many that can be read: one that cannot keeps nobody from the others. It is logged, once
    an hour.
    """

    def __init__(self) -> None:
        self._said = OncePer(_SAY_PERIOD_S)

    def of(self, rows: Iterable[Row], read_one: Callable[[Row], Found]) -> list[Found]:
        found = []
        for row in rows:
            try:
                found.append(read_one(row))
            except Unreadable as error:
                if self._said.admits(str(error)[:200], time.monotonic()) is not None:
                    log.error("unreadable", extra={"why": str(error)[:600]})  # noqa: TRY400
        return found
