"""The feedback store: samples, what people say of them, and the data sets that are made of them.

Synchronous, and safe from any thread. The samples are written by the workers of `hybridge-cloud
serve` into the same database.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from cloud.feedback import candidates, labelling, records, searching, sites
from cloud.feedback.accuracy import Estimate, Stratum, accuracy
from cloud.feedback.answers import AnswerRows, answers, strata
from cloud.feedback.building import Building
from cloud.feedback.data_file import read_rows
from cloud.feedback.database import FeedbackDatabase
from cloud.feedback.deleting import Deleting, begin_line
from cloud.feedback.dictionaries import Dictionaries, decoder_of
from cloud.feedback.documents import (
    DataSetPlan,
    DataSetSpec,
    DataSetVersion,
    Deleted,
    Deletion,
    FeedbackSample,
    FeedbackState,
    Label,
    Reason,
    SampleQuery,
    Source,
)
from cloud.feedback.reading import shape_of
from cloud.feedback.settings import FeedbackSettings
from cloud.registry.artifacts.blobs import Blobs
from cloud.store.schema import data_sets, devices, feedback, labels
from cloud.store.totals import ALL
from shared.errors import Conflict, Unknown
from shared.ids import SampleId
from shared.wire.envelope import Payload

_ORPHAN_S = 86_400.0  # a file without a version: what was killed between the two is long over
_of = feedback.c


class FeedbackStore:
    """Raises `Unavailable` while the database, or where the files are, is away."""

    def __init__(
        self, settings: FeedbackSettings, url: str, blobs: Blobs, dictionaries: Dictionaries
    ) -> None:
        """`url`: of the settings, or the state directory's. `blobs` are for data sets alone, by the
        hash of their content: files that no data set names are removed.
        """
        self.settings = settings
        self._database = FeedbackDatabase(url)
        self._blobs, self._dictionaries = blobs, dictionaries
        self._files = threading.Lock()  # between a file and the line that names it
        self._ending = threading.Event()
        self._deleting = Deleting(self._database, settings.log_lines_max, self._ending.wait)
        self._building = Building(self._database, blobs, dictionaries, settings, self._files)

    def open(self) -> None:
        """Create or migrate the tables. Raises `Malformed` for those of a newer program."""
        self._database.open()
        self._blobs.check()

    def close(self) -> None:
        self._ending.set()
        self._database.close()

    def samples(
        self, query: SampleQuery, after: int | None = None, limit: int = 100
    ) -> tuple[list[FeedbackSample], int | None]:
        """The newest first, and what to ask for `after`; None: there are no more."""
        limit = min(limit, self.settings.page_max)
        return self._database.read(lambda c: searching.page(c, query, after, limit))

    def matching(self, spec: DataSetSpec) -> int:
        """How many samples a data set would choose from."""
        return self._database.read(lambda c: candidates.count(c, spec))

    def sample(self, device: str, sample: SampleId) -> FeedbackSample:
        """Raises `Unknown`."""
        return self._database.read(
            lambda c: searching.one(c, labelling.number_of(c, device, sample))
        )

    def tensor(self, device: str, sample: SampleId) -> NDArray[np.uint8]:
        """The decoded input. Raises `Unknown` for a sample or a dictionary that is not here,
        `Malformed` or `TooLarge` for a payload that does not decode.
        """

        def look(connection: Connection) -> Payload:
            seq = labelling.number_of(connection, device, sample)
            columns = (_of.codec, _of.dtype, _of.shape, _of.payload, _of.dictionary)
            row = connection.execute(sa.select(*columns).where(_of.seq == seq)).one()
            return Payload(row.codec, row.dtype, shape_of(row.shape), row.payload, row.dictionary)

        return decoder_of(self._dictionaries).decode(self._database.read(look))

    def label(
        self, device: str, sample: SampleId, label: int, by: str, now: float, comment: str = ""
    ) -> FeedbackSample:
        """A person's word; it replaces his own earlier one. Raises `Unknown`, `Malformed` for a class
        that the model has not, `TooLarge` where as many people as may have labelled it.
        """
        said = Label(label=label, source=Source.PERSON, by=by, at=now, comment=comment)
        people_max = self.settings.people_max
        return self._database.write(lambda c: labelling.label(c, device, sample, said, people_max))

    def unlabel(self, device: str, sample: SampleId, by: str) -> FeedbackSample:
        """Take back one's word. Raises `Unknown`."""
        return self._database.write(lambda c: labelling.unlabel(c, device, sample, by))

    def delete(self, deletion: Deletion, by: str, now: float) -> Deleted:
        """Samples and what people said of them, a few at a time; what came before an interruption
        stays deleted, and stands in the log. Raises `Unavailable` where `close` ends it.
        """
        rows, size = self._deleting.by(deletion, by, now)
        self._building.wait()  # it may have read them before, and is a data set that holds them
        holding = self._database.read(lambda c: records.holding(c, deletion))
        return Deleted(rows=rows, bytes=size, data_sets=holding)

    def expire(self, now: float) -> int:
        """Delete what is older than `kept_s`; how many rows."""
        if self.settings.kept_s is None:
            return 0
        return self._deleting.older_than(now - self.settings.kept_s, now)[0]

    def state(self) -> FeedbackState:
        """In figures; a tenth of a second for 500,000 samples."""
        return self._database.read(_state)

    def keep_sites(self, found: Mapping[str, str]) -> int:
        """Take the fleet's word for where devices are; how many changed."""
        return self._database.write(lambda c: sites.keep(c, found))

    def accuracy(self, query: SampleQuery, of: Source = Source.EDGE) -> Estimate | None:
        """How many answers of the edge, or of the cloud, are right by what people labelled of these
        samples; None while nobody labelled any.
        """
        return accuracy(self.strata(query, of))

    def strata(self, query: SampleQuery, of: Source = Source.EDGE) -> list[Stratum]:
        """What `accuracy` stands on."""
        return self._database.read(lambda c: strata(c, query, of))

    def answers(self, query: SampleQuery, rows_max: int, devices: Sequence[str] = ()) -> AnswerRows:
        """What the edge said, and what is known to be right, of the newest of these samples.
        `devices`: of these alone, 10,000 at most; none named: of all.
        """
        return self._database.read(lambda c: answers(c, query, rows_max, devices))

    def plan(self, spec: DataSetSpec) -> DataSetPlan:
        """What a data set would hold at present; nothing is read or written."""
        return self._building.plan(spec)

    def build(self, name: str, spec: DataSetSpec, by: str, now: float) -> DataSetVersion:
        """The next version; the present one where rows and spec are the same as its own.

        Raises `Conflict` where no data set can be made of what is there, in words; `TooLarge`;
        `Overloaded` while another is made, or where as many as may are kept.
        """
        return self._building.build(name, spec, by, now)

    def data_sets(self, name: str | None = None) -> list[DataSetVersion]:
        """By name and number."""
        return self._database.read(lambda c: records.versions(c, name))

    def data_set(self, name: str, number: int | None = None) -> DataSetVersion:
        """None: the newest. Raises `Unknown`."""
        return self._database.read(lambda c: records.version(c, name, number))

    def delete_data_set(
        self, name: str, number: int, by: str, now: float, comment: str = "",
        reader: Callable[[str], str] = lambda _: "",
    ) -> DataSetVersion:  # fmt: skip
        """And its file, where no other version has it. `reader` says who has yet to read a file of that
        hash, in words. Raises `Unknown`, and `Conflict` where somebody has.
        """

        def change(connection: Connection) -> tuple[DataSetVersion, bool]:
            gone = records.version(connection, name, number)
            begin_line(
                connection, now, by, "delete data set", f"{name} {number} {gone.sha256}", comment,
                self.settings.log_lines_max,
            )  # fmt: skip
            return gone, records.remove(connection, name, number)

        # For long, where one is written: only then it is asked who has yet to read this one.
        with self._files:
            if who := reader(self.data_set(name, number).sha256):
                raise Conflict(f"data set {name} {number}: {who} reads it; wait until that is over")
            gone, unnamed = self._database.write(change)
            if unnamed:
                self._blobs.remove(gone.sha256)
        return gone

    def content(self, sha256: str) -> bytes:
        """A data set's file. Raises `Unknown`."""
        if self._blobs.stat(sha256) is None:
            raise Unknown(f"there is no file of a data set {sha256}: it was deleted, or never made")
        return b"".join(self._blobs.parts(sha256))

    def verified(self, sha256: str) -> bytes:
        """The same, once all of it has been read. Raises `Malformed` or `NotTrusted`, too, for a file
        that is damaged.
        """
        content, where = self.content(sha256), f"data set {sha256[:12]}"
        read_rows(content, where, sha256, 2 * self.settings.data_set_bytes_max)
        return content

    def sweep(self, now: float) -> int:
        """Remove files that a process which was killed left without a version; how many."""
        removed = 0
        for stored in self._blobs.walk():
            if stored.renewed_at > now - _ORPHAN_S:
                continue
            with self._files:
                named = self._database.read(
                    lambda c, sha256=stored.sha256: records.is_named(c, sha256)  # type: ignore[misc]  # bound now
                )
                if not named:
                    self._blobs.remove(stored.sha256)
                    removed += 1
        return removed


def _state(connection: Connection) -> FeedbackState:
    at = devices.c
    rows, size = connection.execute(
        sa.select(at.row_count, at.byte_count).where(at.device == ALL)
    ).one()
    ends = connection.execute(
        sa.select(_of.received_at).where(
            _of.seq.in_([
                sa.select(sa.func.min(_of.seq)).scalar_subquery(),
                sa.select(sa.func.max(_of.seq)).scalar_subquery(),
            ])
        )
    ).scalars().all()  # fmt: skip
    said = labels.c
    known = sa.select(sa.func.count(sa.distinct(said.sample_seq)))
    differing = sa.select(said.sample_seq).group_by(said.sample_seq)
    differing = differing.having(sa.func.min(said.label) != sa.func.max(said.label))
    reasons = get_args(Reason)  # one pass over the index, without sorting
    counts = connection.execute(
        sa.select(*(sa.func.sum(sa.case((_of.reason == reason, 1), else_=0)) for reason in reasons))
    ).one()
    return FeedbackState(
        rows=rows, bytes=size, oldest_at=min(ends, default=None),
        newest_at=max(ends, default=None), per_reason={reason: int(n) for reason, n in zip(reasons, counts, strict=True) if n},
        labelled=connection.execute(known).scalar_one(),
        contradicted=connection.execute(
            sa.select(sa.func.count()).select_from(differing.subquery())
        ).scalar_one(),
        data_sets=connection.execute(
            sa.select(sa.func.count()).select_from(data_sets)
        ).scalar_one(),
    )  # fmt: skip
