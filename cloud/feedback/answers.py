"""What the edge and the cloud said of samples, beside what is known: for estimates and thresholds."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from cloud.feedback.accuracy import Stratum
from cloud.feedback.documents import SampleQuery, Source
from cloud.feedback.ranking import CODES
from cloud.feedback.searching import conditions
from cloud.store.schema import feedback

_SHARE_MIN: Final = 0.001
"""A device says itself with what share it sends; below this its samples would outweigh the fleet's."""
_STRATA_MAX: Final = 10_000
_of = feedback.c


@dataclass(frozen=True, slots=True)
class AnswerRows:
    """N samples, the newest first; arrays [N]."""

    edge_confidence: NDArray[np.float64]
    edge_labels: NDArray[np.int64]
    cloud_labels: NDArray[np.int64]
    labels: NDArray[np.int64]
    """Of the highest rank."""
    sources: NDArray[np.uint8]
    """Of `labels`: 0 person, 1 cloud."""
    shares: NDArray[np.float64]
    """With which probability a sample like it was sent."""

    def __len__(self) -> int:
        return len(self.labels)


def answers(connection: Connection, query: SampleQuery, rows_max: int) -> AnswerRows:
    """Samples on which people disagree are left out."""
    columns = (
        _of.edge_confidence, _of.edge_label, _of.cloud_label, _of.label, _of.label_source, _of.share
    )  # fmt: skip
    newest = (
        sa.select(_of.seq)
        .where(*conditions(query), _of.contradicted == 0)
        .order_by(_of.seq.desc())
        .limit(rows_max)
    )
    rows = connection.execute(
        sa.select(*columns).where(_of.seq.in_(newest)).order_by(_of.seq.desc())
    ).all()
    person = Source.PERSON.value
    return AnswerRows(
        np.array([row[0] for row in rows], np.float64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.int64),
        np.array([row[3] for row in rows], np.int64),
        np.array(
            [CODES[Source.PERSON if row[4] == person else Source.CLOUD] for row in rows], np.uint8
        ),
        np.array([max(row[5], _SHARE_MIN) for row in rows], np.float64),
    )


def strata(connection: Connection, query: SampleQuery, of: Source) -> list[Stratum]:
    """By share, rising, of the edge's or the cloud's own answers."""
    said = _of.edge_label if of is Source.EDGE else _of.cloud_label
    by_person = sa.and_(_of.label_source == Source.PERSON.value, _of.contradicted == 0)
    labelled = sa.case((by_person, 1), else_=0)
    right = sa.case((sa.and_(by_person, said == _of.label), 1), else_=0)
    rows = connection.execute(
        sa.select(_of.share, sa.func.count(), sa.func.sum(labelled), sa.func.sum(right))
        .where(*conditions(query))
        .group_by(_of.share)
        .order_by(_of.share)
        .limit(_STRATA_MAX)
    )
    found: dict[float, Stratum] = {}
    for share, sent, known, correct in rows:
        key = max(round(share, 3), _SHARE_MIN)
        one = found.get(key, Stratum(key, 0, 0, 0))
        found[key] = Stratum(
            key, one.sent + sent, one.labelled + int(known), one.right + int(correct)
        )
    return list(found.values())
