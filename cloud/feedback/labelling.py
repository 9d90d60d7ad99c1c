"""People's labels: each has one word on a sample, his newest."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from cloud.feedback import searching
from cloud.feedback.documents import FeedbackSample, Label, Source
from cloud.feedback.ranking import verdict
from cloud.store.schema import feedback, labels
from shared.errors import Malformed, TooLarge, Unknown
from shared.ids import SampleId

_BYTES_A_CLASS: Final = 4
_of = feedback.c


def number_of(connection: Connection, device: str, sample: SampleId, *, lock: bool = False) -> int:
    """Where a sample is in the store. Raises `Unknown`. `lock`: nobody else labels it meanwhile."""
    query = sa.select(_of.seq).where(_of.sample_id == sample, _of.device == device)
    if lock:  # SQLite's writers are alone anyway
        query = query.with_for_update()
    seq = connection.execute(query).scalar()
    if seq is None:
        raise Unknown(
            f"sample {sample} of {device} is not in the feedback store: it was never stored, or has "
            "been deleted since"
        )
    return int(seq)


def label(
    connection: Connection, device: str, sample: SampleId, said: Label, people_max: int
) -> FeedbackSample:
    """Raises `Unknown`, `Malformed` for a class that the model has not, `TooLarge` where as many
    people as may have labelled it.
    """
    seq = number_of(connection, device, sample, lock=True)
    packed = sa.select(sa.func.length(_of.probabilities)).where(_of.seq == seq)
    classes = connection.execute(packed).scalar_one() // _BYTES_A_CLASS
    if said.label >= classes:
        raise Malformed(
            f"label {said.label} of sample {sample}: its model has {classes} classes, from 0"
        )
    before = searching.people(connection, [seq]).get(seq, ())
    if len(before) >= people_max and said.by not in {one.by for one in before}:
        raise TooLarge(f"sample {sample} of {device} has {len(before)} labels, as many as are kept")
    connection.execute(sa.delete(labels).where(labels.c.sample_seq == seq, labels.c.by == said.by))
    connection.execute(sa.insert(labels).values(
        sample_seq=seq, by=said.by, label=said.label, at=said.at, comment=said.comment
    ))  # fmt: skip
    return _settle(connection, seq)


def unlabel(connection: Connection, device: str, sample: SampleId, by: str) -> FeedbackSample:
    """Take back one's word. Raises `Unknown` for a sample that is not there, or has none of his."""
    seq = number_of(connection, device, sample, lock=True)
    mine = sa.delete(labels).where(labels.c.sample_seq == seq, labels.c.by == by)
    if not connection.execute(mine).rowcount:
        raise Unknown(f"sample {sample} of {device} has no label by {by}")
    return _settle(connection, seq)


def _settle(connection: Connection, seq: int) -> FeedbackSample:
    said = searching.people(connection, [seq]).get(seq, ())
    cloud = connection.execute(sa.select(_of.cloud_label).where(_of.seq == seq)).scalar_one()
    found = verdict(said, cloud)
    assert found.source is not Source.EDGE
    connection.execute(
        sa.update(feedback)
        .where(_of.seq == seq)
        .values(
            label=found.label, label_source=found.source.value,
            contradicted=int(found.contradicted),
        )
    )  # fmt: skip
    return searching.one(connection, seq)
