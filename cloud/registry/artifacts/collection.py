"""Garbage collection: what nothing needs, and nobody has stored or asked about for a while."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cloud.registry.artifacts.blobs import Blobs, Stored
from cloud.registry.artifacts.hash_locks import HashLocks
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.artifacts.staged_file import Staged
from cloud.registry.artifacts.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Collected:
    """What a garbage collection removed, or with `dry_run` would have."""

    removed: tuple[Stored, ...]
    uploads: tuple[Staged, ...]  # unfinished, and nobody has continued them
    kept: int  # needed
    young: int  # not needed, but within the grace period
    busy: int  # not needed and old, but somebody was storing or asking about one like it just now
    dry_run: bool

    @property
    def freed_bytes(self) -> int:
        return sum(one.bytes for one in self.removed) + sum(one.bytes for one in self.uploads)


def collect(
    blobs: Blobs,
    locks: HashLocks,
    uploads: Uploads,
    settings: ArtifactSettings,
    needed: AbstractSet[str],
    *,
    dry_run: bool,
    now: float,
) -> Collected:
    """Remove. `now`: Unix seconds.

    Whoever is about to register an old artifact has asked whether it is here, which made it young;
    so it is looked at again, alone, before it goes. `needed` may be older than that question.
    """
    than = now - settings.grace_s
    removed, kept, young, busy = [], 0, 0, 0
    for stored in blobs.walk():
        if stored.sha256 in needed:
            kept += 1
        elif stored.renewed_at >= than:
            young += 1
        elif dry_run:
            removed.append(stored)
        else:
            with locks.remove(stored.sha256) as alone:
                again = blobs.stat(stored.sha256) if alone else None
                if not alone:
                    busy += 1
                elif again is not None and again.renewed_at >= than:
                    young += 1
                elif again is not None:
                    blobs.remove(stored.sha256)
                    removed.append(stored)
    dropped = uploads.drop_older(now - settings.upload_s, dry_run=dry_run)
    return Collected(tuple(removed), tuple(dropped), kept, young, busy, dry_run)
