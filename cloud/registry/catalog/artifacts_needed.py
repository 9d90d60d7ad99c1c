"""Which artifacts the catalog needs, so that garbage collection leaves them. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from cloud.registry.catalog.changes import TrustPublished
from cloud.registry.documents import DataSet, Delta, Evaluation, ModelVersion

TRUST_KEPT: Final = 10
"""Newest snapshots and timestamps that stay: who is in the middle of a refresh reads the one that
the timestamp named. Roots, targets and models' roles stay all: clients walk, launches name them."""
_SHORT_LIVED: Final = frozenset({"snapshot", "timestamp"})


def needed(
    versions: Iterable[ModelVersion],
    evaluations: Iterable[Evaluation],
    data_sets: Iterable[DataSet],
    deltas: Iterable[Delta],
    trust: Iterable[TrustPublished],
    replicated_seq: int | None,
) -> set[str]:
    """SHA-256 of each. A version that was deleted after `replicated_seq` is kept: a replica that is
    there in the log copies it yet; None: there is no replica.
    """
    kept: set[str] = set()
    gone: set[tuple[str, str]] = set()
    for version in versions:
        if version.deleted and (replicated_seq is None or version.revision <= replicated_seq):
            gone.add((version.model, version.version))
        else:
            kept |= of_version(version)
    files = frozenset(kept)
    kept |= {
        delta.sha256 for delta in deltas if delta.from_sha256 in files and delta.to_sha256 in files
    }
    for evaluation in evaluations:
        if (evaluation.model, evaluation.version) not in gone:
            kept |= {one for one in (evaluation.report_json, evaluation.report_html) if one}
    kept |= {data_set.file.sha256 for data_set in data_sets}
    kept.update(_of_trust(trust))
    return kept


def of_version(version: ModelVersion) -> set[str]:
    """Its manifest and its files."""
    return {version.manifest.sha256, *(file.sha256 for file in version.files)}


def _of_trust(trust: Iterable[TrustPublished]) -> Iterator[str]:
    passing: dict[str, list[TrustPublished]] = {}
    for file in trust:
        if file.role in _SHORT_LIVED:
            passing.setdefault(file.role, []).append(file)
        else:
            yield file.file.sha256
    for files in passing.values():
        newest = sorted(files, key=lambda one: one.version)[-TRUST_KEPT:]
        yield from (one.file.sha256 for one in newest)
