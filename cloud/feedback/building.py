"""Making a data set: choose on the index, read what was chosen, write the file, then name it."""

import threading
from collections import Counter

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from cloud.feedback import candidates, records
from cloud.feedback.data_file import DataRows, content_hash, write_rows
from cloud.feedback.database import FeedbackDatabase
from cloud.feedback.dictionaries import Dictionaries, decoder_of
from cloud.feedback.documents import DataSetPlan, DataSetSpec, DataSetVersion, Source
from cloud.feedback.ranking import CODES
from cloud.feedback.reading import Read, StoredRow, decoded_bytes, read
from cloud.feedback.sampling import Chosen, choose
from cloud.feedback.settings import FeedbackSettings
from cloud.feedback.teachable import why_not
from cloud.registry.artifacts.blobs import Blobs
from shared.errors import Conflict, Overloaded, TooLarge

GONE = "gone"
"""Of samples that were deleted between choosing and reading."""
_SITES_MAX = 1_000
_RETRY_S = 10.0


class Building:
    """One data set at a time: each is in memory while it is made."""

    def __init__(
        self, database: FeedbackDatabase, blobs: Blobs, dictionaries: Dictionaries,
        settings: FeedbackSettings, files: threading.Lock,
    ) -> None:  # fmt: skip
        """`files` is held from a file's writing to its naming."""
        self._database, self._blobs, self._dictionaries = database, blobs, dictionaries
        self._settings, self._files = settings, files
        self._turn = threading.Lock()

    def plan(self, spec: DataSetSpec) -> DataSetPlan:
        """What it would take."""
        found = self._database.read(lambda c: candidates.find(c, spec))
        chosen = choose(found.candidates, spec)
        of, taken = found.candidates, chosen.taken
        return DataSetPlan(
            rows=len(taken), holdout_rows=int(chosen.holdout.sum()),
            per_class=_per_class(of.labels[taken]),
            per_site=_per_site([found.site_names[site] for site in of.sites[taken]]),
            devices=len(np.unique(of.devices[taken])), per_source=_per_source(of.sources[taken]),
            excluded=chosen.excluded, flooding=chosen.flooding,
            bytes=int(found.row_bytes[taken].sum()),
            refused=why_not(of.labels[taken], chosen.holdout, chosen.excluded),
        )  # fmt: skip

    def build(self, name: str, spec: DataSetSpec, by: str, now: float) -> DataSetVersion:
        """As `FeedbackStore.build`."""
        if not self._turn.acquire(blocking=False):
            raise Overloaded("another data set is being made; one is at a time", _RETRY_S)
        try:
            self._check_room(name)
            chosen, found = self._read(name, spec)
            excluded = dict(sorted((Counter(chosen.excluded) + Counter(found.excluded)).items()))
            rows = found.rows
            if refused := why_not(rows.labels, rows.holdout, excluded):
                raise Conflict(f"data set {name}: {refused}")
            return self._keep(_described(name, spec, rows, chosen, excluded, by, now), found)
        finally:
            self._turn.release()

    def wait(self) -> None:
        """Until the one under way is named, if there is one."""
        with self._turn:
            pass

    def _check_room(self, name: str) -> None:
        count, size = self._database.read(records.sizes)
        settings = self._settings
        if count >= settings.data_sets_max or size >= settings.files_bytes_max:
            raise Overloaded(
                f"data set {name}: {count} versions with {size} bytes are kept; at most "
                f"{settings.data_sets_max} and {settings.files_bytes_max} may be: delete old ones"
            )

    def _read(self, name: str, spec: DataSetSpec) -> tuple[Chosen, Read]:
        matching = self._database.read(lambda c: candidates.find(c, spec))
        chosen = choose(matching.candidates, spec)
        rows: list[StoredRow] = []
        size, most = 0, self._settings.data_set_bytes_max
        for part in candidates.parts(chosen):
            more = self._database.read(
                lambda c, part=part: list(  # type: ignore[misc]  # bound now, not later
                    candidates.stored_rows(c, matching, chosen, part)
                )
            )
            rows += more
            size += decoded_bytes(more) + sum(len(row.payload.data) for row in more)
            if size > most:
                raise TooLarge(
                    f"data set {name}: the first {len(rows)} of {len(chosen.taken)} rows have "
                    f"{size} bytes; at most {most} are held in memory: lower rows_max, or raise "
                    "feedback.data_set_bytes_max"
                )
        found = read(rows, decoder_of(self._dictionaries))
        if gone := len(chosen.taken) - len(rows):
            found = Read(found.rows, found.received, {**found.excluded, GONE: gone})
        return chosen, found

    def _keep(self, made: DataSetVersion, found: Read) -> DataSetVersion:
        content = write_rows(found.rows)
        made = made.model_copy(update={"bytes": len(content)})
        with self._files:
            if self._blobs.renew(made.sha256) is None:
                self._blobs.put(made.sha256, content)

            def name_it(connection: Connection) -> DataSetVersion:
                newest = records.newest(connection, made.name)
                if newest is not None and (newest.sha256, newest.spec) == (made.sha256, made.spec):
                    return newest  # asked twice
                number = records.next_number(connection, made.name)
                numbered = made.model_copy(update={"number": number})
                records.insert(connection, numbered, found.rows, found.received)
                return numbered

            return self._database.write(name_it)


def _described(
    name: str, spec: DataSetSpec, rows: DataRows, chosen: Chosen, excluded: dict[str, int], by: str,
    now: float,
) -> DataSetVersion:  # fmt: skip
    classes = rows.soft.shape[1]
    return DataSetVersion(
        name=name, number=1, sha256=content_hash(rows), bytes=0, spec=spec, rows=len(rows),
        holdout_rows=int(rows.holdout.sum()), classes=classes,
        per_class=_per_class(rows.labels, classes),
        per_site=_per_site([str(site) for site in rows.sites]),
        devices=len(np.unique(rows.devices)), per_source=_per_source(rows.sources),
        excluded=excluded, flooding=chosen.flooding, made_by=by, made_at=now,
    )  # fmt: skip


def _per_class(labels: NDArray[np.int64], classes: int = 0) -> tuple[int, ...]:
    return tuple(int(count) for count in np.bincount(labels, minlength=classes))


def _per_site(sites: list[str]) -> dict[str, int]:
    """The biggest, where there are very many."""
    return dict(sorted(Counter(sites).most_common(_SITES_MAX)))


def _per_source(sources: NDArray[np.uint8]) -> dict[Source, int]:
    found = {source: int((sources == code).sum()) for source, code in CODES.items()}
    return {source: count for source, count in found.items() if count}
