"""Artifacts in an object store: S3, or whatever else obstore speaks. Credentials: its environment.

`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, and `AWS_ENDPOINT_URL` for a store of
another maker; with an `http://` endpoint plain HTTP is allowed. An object's time cannot be renewed:
an empty one below `renewed/` has the newer time. A bucket needs a lifecycle rule that ends multipart
uploads which a killed process left: S3 lists no objects of them.
"""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import from_url

from cloud.registry.artifacts.blobs import Stored, is_sha256, key
from shared.errors import Malformed, Unavailable, Unknown

if TYPE_CHECKING:  # names that only the stubs have
    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_PART = 4 << 20  # a request each: one that streamed at a slow device's pace would time out
_CORRUPT = "corrupt"
_RENEWED = "renewed"


class ObjectBlobs:
    def __init__(self, where: str, store: "ObjectStore") -> None:
        self.where = where
        self._store = store

    def check(self) -> None:
        with self._in_words():
            next(iter(self._store.list("sha256", chunk_size=1)), None)

    def stat(self, sha256: str) -> Stored | None:
        if (found := self._head(key(sha256))) is None:
            return None
        renewed = self._head(f"{_RENEWED}/{sha256}")
        return Stored(sha256, found["size"], max(_time(found), _time(renewed)))

    def renew(self, sha256: str) -> int | None:
        if (found := self._head(key(sha256))) is None:
            return None
        with self._in_words():
            self._store.put(f"{_RENEWED}/{sha256}", b"")
        return found["size"]

    def put(self, sha256: str, content: bytes) -> None:
        with self._in_words():
            self._store.put(key(sha256), content)

    def place(self, sha256: str, staged: Path) -> None:
        with self._in_words():
            self._store.put(key(sha256), staged)
        staged.unlink(missing_ok=True)

    def path(self, sha256: str) -> Path | None:  # noqa: ARG002 - the seam's
        return None

    def parts(self, sha256: str) -> Iterator[bytes]:
        size = self._size(sha256)
        for start in range(0, size, _PART):
            with self._in_words(sha256):
                part = bytes(
                    self._store.get_range(key(sha256), start=start, end=min(start + _PART, size))
                )
            yield part

    async def ranges(self, sha256: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        for at in range(start, end, _PART):
            with self._in_words(sha256):
                part = bytes(
                    await obstore.get_range_async(
                        self._store, key(sha256), start=at, end=min(at + _PART, end)
                    )
                )
            yield part

    def walk(self) -> Iterator[Stored]:
        renewed = {found["path"]: _time(found) for found in self._list(_RENEWED)}
        for found in self._list("sha256"):
            sha256 = found["path"].rpartition("/")[2]
            if is_sha256(sha256) and found["path"] == key(sha256):
                newer = renewed.get(f"{_RENEWED}/{sha256}", 0.0)
                yield Stored(sha256, found["size"], max(_time(found), newer))

    def remove(self, sha256: str) -> None:
        with self._in_words():
            self._store.delete([key(sha256), f"{_RENEWED}/{sha256}"])

    def set_aside(self, sha256: str, kept_max: int) -> None:
        try:
            with self._in_words(sha256):
                self._store.rename(key(sha256), f"{_CORRUPT}/{sha256}")
        except Unknown:
            return
        kept = sorted(self._list(_CORRUPT), key=_time, reverse=True)
        with self._in_words():
            self._store.delete([f"{_RENEWED}/{sha256}", *(one["path"] for one in kept[kept_max:])])

    def _size(self, sha256: str) -> int:
        if (found := self._head(key(sha256))) is None:
            raise Unknown(f"{self.where}: there is no artifact {sha256}")
        return found["size"]

    def _head(self, path: str) -> "ObjectMeta | None":
        try:
            with self._in_words(path):
                return self._store.head(path)
        except Unknown:
            return None

    def _list(self, prefix: str) -> Iterator["ObjectMeta"]:
        with self._in_words():
            for page in self._store.list(prefix, chunk_size=1000):
                yield from page

    @contextmanager
    def _in_words(self, what: str = "") -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            line = " ".join(str(error).split("Debug source", maxsplit=1)[0].split())[:300]
            if isinstance(error, NotFoundError | FileNotFoundError) and what:
                raise Unknown(f"{self.where}: there is no {what}") from error
            if isinstance(error, UnauthenticatedError | PermissionDeniedError):
                line = f"the store refuses this registry's credentials: {line}"
            raise Unavailable(f"{self.where}: {line}") from error


def object_blobs(url: str) -> ObjectBlobs:
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
        raise Malformed(f"{url[:200]}: not an object store's URL: {error}") from error
    return ObjectBlobs(url, store)


def _time(found: "ObjectMeta | None") -> float:
    return 0.0 if found is None else found["last_modified"].timestamp()
