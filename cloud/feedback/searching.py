"""Samples by what is asked of them. The newest first, a page at a time, on the index alone until it is
known which ones they are.
"""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from cloud.feedback.documents import FeedbackSample, Label, SampleQuery, Source
from cloud.feedback.reading import shape_of
from cloud.feedback.sites import sites_of
from cloud.store.draw import FOLDS, folds_of
from cloud.store.schema import feedback, labels, sites

_of = feedback.c
_SHOWN: Final = (
    _of.seq, _of.sample_id, _of.device, _of.reason, _of.share, _of.captured_at, _of.received_at,
    _of.edge_model, _of.edge_version, _of.edge_label, _of.edge_confidence, _of.cloud_model,
    _of.cloud_version, _of.cloud_label, _of.cloud_confidence, _of.label, _of.label_source,
    _of.contradicted, _of.dtype, _of.shape,
    sa.func.length(_of.payload).label("payload_bytes"),
)  # fmt: skip


def conditions(query: SampleQuery) -> list[ColumnElement[bool]]:
    """Of columns that the index has."""
    found: list[ColumnElement[bool]] = []
    equal: tuple[tuple[ColumnElement[Any], object], ...] = (
        (_of.edge_model, query.model),
        (_of.edge_version, query.version),
        (_of.cloud_model, query.cloud_model),
        (_of.device, query.device),
        (_of.reason, query.reason),
        (_of.label, query.label),
        (_of.label_source, query.source and query.source.value),
    )
    found += [column == value for column, value in equal if value is not None]
    if query.site is not None:
        at = sa.select(sites.c.device)
        here = at.where(sites.c.site == query.site)
        somewhere = at.where(sites.c.site != "")
        found.append(_of.device.in_(here) if query.site else _of.device.not_in(somewhere))
    if query.since is not None:
        found.append(_of.received_at >= query.since)
    if query.until is not None:
        found.append(_of.received_at < query.until)
    if query.unsure is not None:
        found.append(_of.cloud_confidence < query.unsure)
    if query.disputed:
        found.append(sa.or_(_of.edge_label != _of.cloud_label, _of.contradicted == 1))
    if query.contradicted:
        found.append(_of.contradicted == 1)
    if query.unlabelled:
        found.append(_of.label_source != Source.PERSON.value)
    if query.holdout is not None:
        found.append(_of.draw % FOLDS < folds_of(query.holdout))
    return found


def page(
    connection: Connection, query: SampleQuery, after: int | None, limit: int
) -> tuple[list[FeedbackSample], int | None]:
    """And what to ask for `after`; None: this was the last."""
    wanted = conditions(query)
    if after is not None:
        wanted.append(_of.seq < after)
    numbers = list(
        connection.execute(
            sa.select(_of.seq).where(*wanted).order_by(_of.seq.desc()).limit(limit)
        ).scalars()
    )
    rows = connection.execute(
        sa.select(*_SHOWN).where(_of.seq.in_(numbers)).order_by(_of.seq.desc())
    ).all()
    return documents(connection, rows), numbers[-1] if len(numbers) == limit else None


def one(connection: Connection, seq: int) -> FeedbackSample:
    """The sample of this number, which is there."""
    rows = connection.execute(sa.select(*_SHOWN).where(_of.seq == seq)).all()
    return documents(connection, rows)[0]


def people(connection: Connection, numbers: Sequence[int]) -> dict[int, tuple[Label, ...]]:
    """What people said, the newest first, by the sample's number."""
    of = labels.c
    query = sa.select(of.sample_seq, of.by, of.label, of.at, of.comment)
    query = query.where(of.sample_seq.in_(list(numbers))).order_by(of.at.desc(), of.by)
    found: dict[int, tuple[Label, ...]] = {}
    for seq, by, label, at, comment in connection.execute(query):
        said = Label(label=label, source=Source.PERSON, by=by, at=at, comment=comment)
        found[seq] = (*found.get(seq, ()), said)
    return found


def documents(connection: Connection, rows: Sequence[Any]) -> list[FeedbackSample]:
    """As the API gives them, in their order."""
    said = people(connection, [row.seq for row in rows])
    at = sites_of(connection, {row.device for row in rows})
    return [_document(row, said.get(row.seq, ()), at.get(row.device, "")) for row in rows]


def _document(row: Any, said: tuple[Label, ...], site: str) -> FeedbackSample:
    return FeedbackSample(
        id=str(row.sample_id), device=row.device, site=site, reason=row.reason, share=row.share,
        captured_at=row.captured_at, received_at=row.received_at, edge_model=row.edge_model,
        edge_version=row.edge_version, edge_label=row.edge_label,
        edge_confidence=row.edge_confidence, cloud_model=row.cloud_model,
        cloud_version=row.cloud_version, cloud_label=row.cloud_label,
        cloud_confidence=row.cloud_confidence, labels=said, label=row.label,
        label_source=Source(row.label_source), contradicted=bool(row.contradicted),
        dtype=row.dtype, shape=shape_of(row.shape), bytes=row.payload_bytes,
    )  # fmt: skip
