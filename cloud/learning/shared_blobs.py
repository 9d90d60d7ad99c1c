"""The artifact store, which data sets share with what training jobs leave there."""

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection, exists, or_, select

from cloud.registry.artifacts.blobs import Blobs, Stored
from cloud.training.store import schema as s
from cloud.training.store.database import LearningDatabase


class DataSetBlobs:
    """`blobs` without what jobs left: whoever removes what no data set names does not see it."""

    def __init__(self, blobs: Blobs, is_of_a_job: Callable[[str], bool]) -> None:
        self._blobs, self._is_of_a_job = blobs, is_of_a_job

    @property
    def where(self) -> str:
        return self._blobs.where

    def check(self) -> None:
        self._blobs.check()

    def stat(self, sha256: str) -> Stored | None:
        return self._blobs.stat(sha256)

    def renew(self, sha256: str) -> int | None:
        return self._blobs.renew(sha256)

    def put(self, sha256: str, content: bytes) -> None:
        self._blobs.put(sha256, content)

    def place(self, sha256: str, staged: Path) -> None:
        self._blobs.place(sha256, staged)

    def path(self, sha256: str) -> Path | None:
        return self._blobs.path(sha256)

    def parts(self, sha256: str) -> Iterator[bytes]:
        return self._blobs.parts(sha256)

    def ranges(self, sha256: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        return self._blobs.ranges(sha256, start, end)

    def walk(self) -> Iterator[Stored]:
        """Files of data sets, and those that nobody names."""
        for stored in self._blobs.walk():
            if not self._is_of_a_job(stored.sha256):
                yield stored

    def remove(self, sha256: str) -> None:
        self._blobs.remove(sha256)

    def set_aside(self, sha256: str, kept_max: int) -> None:
        self._blobs.set_aside(sha256, kept_max)


def named_by_jobs(database: LearningDatabase) -> Callable[[str], bool]:
    """Whether a run's artifact, a job's bundle or its checkpoint has that hash."""

    def look(connection: Connection, sha256: str) -> bool:
        query = select(or_(
            exists().where(s.artifacts.c.sha256 == sha256),
            exists().where(s.jobs.c.bundle_sha256 == sha256),
            exists().where(s.jobs.c.checkpoint == sha256),
        ))  # fmt: skip
        return bool(connection.execute(query).scalar_one())

    return lambda sha256: database.read(lambda connection: look(connection, sha256))
