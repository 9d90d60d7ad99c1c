"""A prefix in an object store: S3, or whatever else obstore speaks. Credentials: its environment.

`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, and `AWS_ENDPOINT_URL` for a store of
another maker; with an `http://` endpoint plain HTTP is allowed.
"""

import os
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from cloud.batch.source import FILES_MAX, Found
from shared.errors import Malformed, NotTrusted, TooLarge, Unavailable, Unknown

if TYPE_CHECKING:  # names that only the stubs have
    from obstore.store import ClientConfig, MemoryStore, ObjectStore, RetryConfig

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss", "memory")


class ObjectSource:
    """Objects below a prefix, by key; keys that end in "/" are folders' marks and left out."""

    def __init__(
        self, where: str, store: "ObjectStore | MemoryStore", files_max: int = FILES_MAX
    ) -> None:
        self._where, self._store, self._files_max = where, store, files_max

    @property
    def where(self) -> str:
        return self._where

    def find(self) -> list[Found]:
        found: list[Found] = []
        try:
            for page in self._store.list():
                found += [
                    Found(
                        name=one["path"], size_bytes=one["size"], tag=one["e_tag"] or "",
                        modified=one["last_modified"].timestamp(),
                    )
                    for one in page
                    if one["size"] or not one["path"].endswith("/")
                ]  # fmt: skip
                if len(found) > self._files_max:
                    raise TooLarge(f"{self._where}: over {self._files_max} objects; split it")
        except BaseError as error:
            raise _in_words(error, self._where) from error
        return sorted(found, key=lambda one: one.name)

    def read(self, found: Found) -> bytes:
        try:
            got = self._store.get(found.name)
            meta = got.meta
            if (meta["e_tag"] or "", meta["size"]) != (found.tag, found.size_bytes):
                raise Malformed(f"{found.name}: changed after it was listed; run again")
            return bytes(got.bytes())
        except NotFoundError as error:
            raise Malformed(f"{found.name}: gone since it was listed") from error
        except BaseError as error:
            raise _in_words(error, f"{self._where}: {found.name}") from error


def object_source(url: str) -> ObjectSource:
    """Raises `Malformed` for a URL that names no store."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    client: ClientConfig = {
        "timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=10),
        "allow_http": urlsplit(endpoint).scheme == "http",
    }  # fmt: skip
    retry: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
    try:
        store = from_url(url, client_options=client, retry_config=retry)
    except (BaseError, ValueError) as error:
        raise Malformed(f"{url[:200]}: not an object store's URL: {_line(error)}") from error
    return ObjectSource(url, store)


def _in_words(error: BaseError, where: str) -> NotTrusted | Unknown | Malformed | Unavailable:
    line = _line(error)
    if isinstance(error, UnauthenticatedError | PermissionDeniedError):
        return NotTrusted(f"{where}: the store refuses these credentials: {line}")
    if isinstance(error, NotFoundError):
        return Unknown(f"{where}: {line}")
    if isinstance(error, PreconditionError):
        return Malformed(f"{where}: {line}")
    return Unavailable(f"{where}: {line}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split("Debug source", maxsplit=1)[0].split())[:300]
