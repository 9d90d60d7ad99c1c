"""From the store: the samples that a data set may take, and those that it takes."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection

from cloud.feedback.documents import DataSetSpec, Source
from cloud.feedback.ranking import CODES
from cloud.feedback.reading import StoredRow, shape_of
from cloud.feedback.sampling import Candidates, Chosen
from cloud.store.schema import feedback, sites
from shared.wire.envelope import Payload

CANDIDATES_MAX: Final = 2_000_000
"""The newest that match; 70 bytes each while it is chosen."""
_FETCH: Final = 10_000
_PAYLOADS: Final = 500  # read at once: a megabyte or two
_of = feedback.c


@dataclass(frozen=True, slots=True)
class Found:
    candidates: Candidates
    site_names: tuple[str, ...]
    row_bytes: NDArray[np.int64]


def find(connection: Connection, spec: DataSetSpec) -> Found:
    """On the index alone. Candidates in the order of their numbers, the newest first."""
    device_sites = dict(connection.execute(sa.select(sites.c.device, sites.c.site)).all())
    names: dict[str, int] = {}
    site_names: dict[str, int] = {}
    site_of: list[int] = []  # by device's number; -1: not wanted
    only_devices, only_sites = frozenset(spec.devices), frozenset(spec.sites)
    seqs, draws, devices, labels = array("q"), array("q"), array("q"), array("q")
    sources, contradicted = array("B"), array("B")
    confidence, received, sizes = array("f"), array("d"), array("q")
    person = Source.PERSON.value
    query = (
        sa.select(
            _of.seq, _of.draw, _of.device, _of.label, _of.label_source, _of.contradicted,
            _of.cloud_confidence, _of.received_at, _of.row_bytes,
        )
        .where(*_conditions(spec))
        .order_by(_of.seq.desc())
        .limit(CANDIDATES_MAX)
    )  # fmt: skip
    for seq, draw, device, label, source, disputed, sure, at, size in connection.execute(
        query.execution_options(yield_per=_FETCH)
    ):
        number = names.get(device)
        if number is None:
            number = names[device] = len(names)
            site = device_sites.get(device, "")
            wanted = (not only_devices or device in only_devices) and (
                not only_sites or site in only_sites
            )
            site_of.append(site_names.setdefault(site, len(site_names)) if wanted else -1)
        if site_of[number] < 0:
            continue
        seqs.append(seq)
        draws.append(draw)
        devices.append(number)
        labels.append(label)
        sources.append(CODES[Source.PERSON if source == person else Source.CLOUD])
        contradicted.append(disputed)
        confidence.append(sure)
        received.append(at)
        sizes.append(size)
    device_numbers = np.frombuffer(devices, np.int64) if devices else np.zeros(0, np.int64)
    candidates = Candidates(
        seqs=_numbers(seqs, np.int64), draws=_numbers(draws, np.int64).astype(np.uint64),
        devices=device_numbers,
        sites=np.array(site_of, np.int64)[device_numbers] if site_of else device_numbers,
        labels=_numbers(labels, np.int64), sources=_numbers(sources, np.uint8),
        cloud_confidence=_numbers(confidence, np.float32),
        contradicted=_numbers(contradicted, np.uint8).astype(np.bool_),
        received=_numbers(received, np.float64), device_names=tuple(names),
    )  # fmt: skip
    return Found(candidates, tuple(site_names), _numbers(sizes, np.int64))


def count(connection: Connection, spec: DataSetSpec) -> int:
    """How many samples match, whatever their labels are worth."""
    wanted = _conditions(spec)
    if spec.devices:
        wanted.append(_of.device.in_(spec.devices))
    if spec.sites:
        at = sa.select(sites.c.device)
        here = _of.device.in_(at.where(sites.c.site.in_(spec.sites)))
        nowhere = _of.device.not_in(at.where(sites.c.site != ""))
        wanted.append(sa.or_(here, nowhere) if "" in spec.sites else here)
    statement = sa.select(sa.func.count()).select_from(feedback).where(*wanted)
    return int(connection.execute(statement).scalar_one())


def stored_rows(
    connection: Connection, found: Found, chosen: Chosen, part: slice
) -> Iterator[StoredRow]:
    """Some of the chosen ones; those that were deleted meanwhile are missing."""
    candidates = found.candidates
    where = {
        int(candidates.seqs[index]): (int(index), bool(held))
        for index, held in zip(chosen.taken[part], chosen.holdout[part], strict=True)
    }
    query = sa.select(
        _of.seq, _of.sample_id, _of.device, _of.codec, _of.dtype, _of.shape, _of.dictionary,
        _of.payload, _of.probabilities, _of.share, _of.edge_label, _of.captured_at,
        _of.received_at,
    ).where(_of.seq.in_(list(where)))  # fmt: skip
    for row in connection.execute(query):
        index, held = where[row.seq]
        person = candidates.sources[index] == CODES[Source.PERSON]
        yield StoredRow(
            id=row.sample_id, device=row.device, site=found.site_names[candidates.sites[index]],
            payload=Payload(
                row.codec, row.dtype, shape_of(row.shape), row.payload, row.dictionary
            ),
            probabilities=row.probabilities, label=int(candidates.labels[index]),
            source=Source.PERSON if person else Source.CLOUD, share=row.share,
            edge_label=row.edge_label, holdout=held, captured_at=row.captured_at,
            received_at=row.received_at,
        )  # fmt: skip


def parts(chosen: Chosen) -> Iterator[slice]:
    """Each for one short transaction."""
    for start in range(0, len(chosen.taken), _PAYLOADS):
        yield slice(start, start + _PAYLOADS)


def _conditions(spec: DataSetSpec) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [_of.edge_model == spec.model]
    if spec.since is not None:
        found.append(_of.received_at >= spec.since)
    if spec.until is not None:
        found.append(_of.received_at < spec.until)
    if spec.versions:
        found.append(_of.edge_version.in_(spec.versions))
    if spec.cloud_model is not None:
        found.append(_of.cloud_model == spec.cloud_model)
    if spec.reasons:
        found.append(_of.reason.in_(spec.reasons))
    return found


def _numbers(values: "array[Any]", dtype: Any) -> NDArray[Any]:
    return np.frombuffer(values, dtype) if len(values) else np.zeros(0, dtype)
