"""Answers as documents."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from cloud.registry.client.connection import Connection
from shared.config import in_words
from shared.errors import Malformed

D = TypeVar("D", bound=BaseModel)
T = TypeVar("T")


async def one(
    connection: Connection,
    kind: type[D],
    method: str,
    path: str,
    document: object = None,
    revision: int | None = None,
) -> D:
    """Call, and read the answer as one document."""
    found = await connection.json(method, path, document=document, revision=revision)
    return read(kind, found, path)


async def many(
    connection: Connection,
    kind: type[D],
    name: str,
    path: str,
    query: Mapping[str, str | int | float | None] | None = None,
) -> list[D]:
    """Call, and read the member `name` of the answer as a list of documents."""
    found = await connection.json("GET", path, query=query)
    return read(list[kind], member(found, name), path)  # type: ignore[valid-type]


def read(kind: type[T], found: object, where: str) -> T:
    """Raises `Malformed`: another program's answer, or another release's."""
    try:
        return TypeAdapter(kind).validate_python(found)
    except ValidationError as error:
        raise Malformed(
            f"{where}: the answer is none that this program reads: {in_words(error)[:500]}; "
            "is one of the two older?"
        ) from error


def member(found: object, name: str) -> object:
    return found.get(name) if isinstance(found, dict) else None
