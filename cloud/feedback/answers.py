"""What the edge and the cloud said of samples, beside what is known: for estimates and thresholds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from cloud.feedback.accuracy import Stratum
from cloud.feedback.documents import SampleQuery, Source
from cloud.feedback.ranking import CODES
from cloud.feedback.reading import SHARE_MIN
from cloud.feedback.searching import conditions
from cloud.store.schema import feedback

_STEP: Final = 1000
"""Shares are told apart to a thousandth: a device that claims another one with each sample makes no more
strata than that, and hides nobody's."""
_DIGITS: Final = 6
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


def answers(
    connection: Connection, query: SampleQuery, rows_max: int, devices: Sequence[str] = ()
) -> AnswerRows:
    """Samples on which people disagree are left out. `devices`: of these alone; none named: all."""
    columns = (
        _of.edge_confidence, _of.edge_label, _of.cloud_label, _of.label, _of.label_source, _of.share
    )  # fmt: skip
    wanted = [*conditions(query), _of.contradicted == 0]
    if devices:
        wanted.append(_of.device.in_(devices))
    newest = sa.select(_of.seq).where(*wanted).order_by(_of.seq.desc()).limit(rows_max)
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
        np.array([max(row[5], SHARE_MIN) for row in rows], np.float64),
    )


def strata(connection: Connection, query: SampleQuery, of: Source) -> list[Stratum]:
    """By share, rising, of the edge's or the cloud's own answers. A stratum's share is the harmonic mean
    of its samples' own: together they stand for as many. Those of share 1 are apart: whatever else is
    among them would make an audit of each.
    """
    said = _of.edge_label if of is Source.EDGE else _of.cloud_label
    by_person = sa.and_(_of.label_source == Source.PERSON.value, _of.contradicted == 0)
    labelled = sa.case((by_person, 1), else_=0)
    right = sa.case((sa.and_(by_person, said == _of.label), 1), else_=0)
    said_step = sa.cast(sa.func.round(_of.share * _STEP), sa.Integer)
    least = round(SHARE_MIN * _STEP)
    step = sa.case(
        (_of.share >= 1.0, _STEP),
        (said_step < least, least),
        (said_step >= _STEP, _STEP - 1),
        else_=said_step,
    )
    stands_for = 1.0 / sa.case((_of.share < SHARE_MIN, SHARE_MIN), else_=_of.share)
    rows = connection.execute(
        sa.select(
            step,
            sa.func.count(),
            sa.func.sum(labelled),
            sa.func.sum(right),
            sa.func.sum(stands_for),
        )
        .where(*conditions(query))
        .group_by(sa.literal_column("1"))
        .order_by(sa.literal_column("1"))
    )
    return [
        # not its step, which is up to half a thousandth off: a small share's half
        Stratum(round(sent / stand_for, _DIGITS), sent, int(known), int(correct))
        for _, sent, known, correct, stand_for in rows
    ]
