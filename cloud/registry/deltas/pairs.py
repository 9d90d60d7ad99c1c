"""Which files of a new version a device would want from which of an older one's."""

from collections.abc import Sequence

from cloud.registry.deltas.settings import DeltaSettings
from cloud.registry.documents import ModelVersion


def pairs(
    new: ModelVersion, old: Sequence[ModelVersion], settings: DeltaSettings
) -> list[tuple[str, str]]:
    """Hashes (from, to) of files under the same path; the newest of `old` first, each pair once."""
    found: dict[tuple[str, str], None] = {}
    recent = sorted(old, key=_released, reverse=True)
    for version in [one for one in recent if one.version != new.version][: settings.releases]:
        there = {file.path: file for file in version.files}
        for file in new.files:
            was = there.get(file.path)
            if was is None or was.sha256 == file.sha256:
                continue
            if (
                file.bytes >= settings.bytes_min
                and max(file.bytes, was.bytes) <= settings.bytes_max
            ):
                found[was.sha256, file.sha256] = None
    return list(found)


def _released(version: ModelVersion) -> int:
    return max((launch.number for launch in version.launches), default=0)
