"""Who has yet to read a data set's file."""

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, select

from cloud.learning.documents import Phase
from cloud.learning.store.loops import LoopStore
from cloud.training.documents import ACTIVE
from cloud.training.store import schema as s
from cloud.training.store.database import LearningDatabase

_BEFORE_ITS_JOB_ENDS: Final = frozenset({Phase.DATA_SET, Phase.TRAINING})


def reader_of(database: LearningDatabase, loops: LoopStore) -> Callable[[str], str]:
    """By the file's hash, the job or the cycle that needs it, in words; nobody: empty."""

    def job(connection: Connection, sha256: str) -> str | None:
        of = s.jobs.c
        needs = of.spec.contains(sha256)  # a document, whose `data_set` it is
        query = select(of.id).where(of.state.in_([one.value for one in ACTIVE]), needs)
        found: str | None = connection.execute(query.limit(1)).scalar()
        return found

    def reader(sha256: str) -> str:
        if (name := database.read(lambda connection: job(connection, sha256))) is not None:
            return f"job {name}"
        for record in loops.running():
            cycle = record.cycle
            if cycle.data_set == sha256 and cycle.phase in _BEFORE_ITS_JOB_ENDS:
                return f"cycle {cycle.id}"
        return ""

    return reader
