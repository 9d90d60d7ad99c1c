"""Which artifacts an entry cannot be seen without. Pure."""

from collections.abc import Iterable, Iterator

from cloud.registry.catalog import changes
from cloud.registry.documents import Entry


def artifacts_of(entries: Iterable[Entry]) -> dict[str, int | None]:
    """Their SHA-256, in the order of the log, and how many bytes each has, where that is told.

    Raises `Malformed` for an entry that this program does not know.
    """
    found: dict[str, int | None] = {}
    for entry in entries:
        for sha256, size in _of(changes.change_of(entry)):
            if found.get(sha256) is None:
                found[sha256] = size
    return found


def _of(change: changes.Change) -> Iterator[tuple[str, int | None]]:
    match change:
        case changes.Registered():
            yield change.manifest.sha256, change.manifest.bytes
            for file in change.files:
                yield file.sha256, file.bytes
        case changes.EvaluationEnded():
            for report in (change.report_json, change.report_html):
                if report is not None:
                    yield report, None
        case changes.DataSetAdded():
            yield change.data_set.file.sha256, change.data_set.file.bytes
        case changes.DeltaAdded():
            yield change.delta.sha256, change.delta.bytes
        case changes.TrustPublished():
            yield change.file.sha256, change.file.bytes
        case _:
            return
