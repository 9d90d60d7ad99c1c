"""What differs between two versions of a model. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from cloud.registry.documents import Delta, Evaluation, Metrics, ModelVersion, StoredFile
from shared.bundle.manifest import Manifest

_APART = ("lineage.metrics", "variants", "golden.file", "card", "payload.dictionary")
"""Members of a manifest that are shown elsewhere: as metrics and as files."""


class Field(BaseModel):
    """A member of the manifest that differs; None where there is none."""

    name: str
    before: object
    after: object


class FileChange(BaseModel):
    """`change`: same, changed, added or removed. `download_bytes`: for who has the version before."""

    path: str
    change: str
    before_bytes: int | None
    after_bytes: int | None
    download_bytes: int
    by_delta: bool


class Figure(BaseModel):
    """One figure of both versions. `of`: lineage, as training said, or the variant measured."""

    of: str
    metric: str
    before: float | None
    after: float | None


class Difference(BaseModel):
    model: str
    before: str
    after: str
    fields: list[Field]
    files: list[FileChange]
    metrics: list[Figure]
    evaluations: list[Figure]
    evaluated_on_other_hardware: bool
    download_bytes: int  # of a device that has `before` and takes `after`
    full_bytes: int  # of one that has nothing


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two versions."""

    version: ModelVersion
    manifest: Manifest
    evaluation: Evaluation | None


def difference(before: Side, after: Side, deltas: Mapping[str, Sequence[Delta]]) -> Difference:
    """`deltas`: to each file of `after` that `before` has not, by its SHA-256."""
    files = list(_files(before.version.files, after.version.files, deltas))
    manifest_bytes = after.version.manifest.bytes
    hardware = {
        side.evaluation.hardware.fingerprint
        for side in (before, after)
        if side.evaluation is not None and side.evaluation.hardware is not None
    }
    return Difference(
        model=after.version.model,
        before=before.version.version,
        after=after.version.version,
        fields=list(_fields(before.manifest, after.manifest)),
        files=files,
        metrics=list(
            _figures(
                {"lineage": before.manifest.lineage.metrics},
                {"lineage": after.manifest.lineage.metrics},
            )
        ),
        evaluations=list(_figures(_measured(before), _measured(after))),
        evaluated_on_other_hardware=len(hardware) > 1,
        download_bytes=manifest_bytes + sum(file.download_bytes for file in files),
        full_bytes=manifest_bytes
        + sum({file.sha256: file.bytes for file in after.version.files}.values()),
    )


def _fields(before: Manifest, after: Manifest) -> Iterator[Field]:
    old, new = (
        dict(_flat(before.model_dump(mode="json"))),
        dict(_flat(after.model_dump(mode="json"))),
    )
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name) and not name.startswith(_APART):
            yield Field(name=name, before=old.get(name), after=new.get(name))
    variants = [{one.key: one.runtime for one in m.variants} for m in (before, after)]
    for key in dict.fromkeys([*variants[0], *variants[1]]):
        old_needs, new_needs = (side.get(key) for side in variants)
        if old_needs != new_needs:
            yield Field(name=f"variants.{key}", before=old_needs, after=new_needs)


def _flat(tree: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Members by their dotted names; a list is one value."""
    if not isinstance(tree, dict) or not tree:
        yield name, tree
        return
    for member, value in tree.items():
        yield from _flat(value, f"{name}.{member}" if name else str(member))


def _files(
    before: Sequence[StoredFile], after: Sequence[StoredFile], deltas: Mapping[str, Sequence[Delta]]
) -> Iterator[FileChange]:
    had = {file.sha256 for file in before}
    old = {file.path: file for file in before}
    coming: set[str] = set()
    for file in after:
        was = old.pop(file.path, None)
        is_here = file.sha256 in had or file.sha256 in coming
        coming.add(file.sha256)
        ways = [one.bytes for one in deltas.get(file.sha256, ()) if one.from_sha256 in had]
        least = min([file.bytes, *ways])
        change = "added" if was is None else "same" if was.sha256 == file.sha256 else "changed"
        yield FileChange(
            path=file.path,
            change=change,
            before_bytes=None if was is None else was.bytes,
            after_bytes=file.bytes,
            download_bytes=0 if is_here else least,
            by_delta=not is_here and least < file.bytes,
        )
    for file in old.values():
        yield FileChange(
            path=file.path, change="removed", before_bytes=file.bytes, after_bytes=None,
            download_bytes=0, by_delta=False,
        )  # fmt: skip


def _measured(side: Side) -> Mapping[str, Metrics]:
    return {} if side.evaluation is None else side.evaluation.metrics


def _figures(
    before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]
) -> Iterator[Figure]:
    for of in dict.fromkeys([*before, *after]):
        old, new = before.get(of, {}), after.get(of, {})
        for metric in dict.fromkeys([*old, *new]):
            yield Figure(of=of, metric=metric, before=old.get(metric), after=new.get(metric))
