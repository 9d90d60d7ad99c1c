"""What to fetch for a bundle, and whether it fits on the disk. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from shared.bundle.files import BYTES_MAX, MANIFEST, MEMBERS_MAX
from shared.bundle.manifest import File, Manifest, Sha256
from shared.errors import Malformed, TooLarge

_OURS = (".partial", ".etag")  # endings that a transfer uses beside its target
DELTA_SHARE_MAX = 0.6
DELTA_FILE_BYTES_MAX = 256 * 1024 * 1024
"""Applying a delta holds the old file, the delta and the new file in memory."""


@dataclass(frozen=True, slots=True)
class DeltaOffer:
    """A way to the file `to_sha256` for who has `from_sha256`; its own bytes are `sha256`."""

    from_sha256: Sha256
    to_sha256: Sha256
    sha256: Sha256
    bytes: int


def files_of(manifest: Manifest, where: str) -> tuple[File, ...]:
    """Each file once, smallest first. Raises `Malformed` or `TooLarge` for a list that cannot be
    laid out in a folder.
    """
    listed = {file.path: file for file in manifest.files()}
    if len(listed) >= MEMBERS_MAX or sum(f.bytes for f in listed.values()) > BYTES_MAX:
        raise TooLarge(f"{where}: lists more than {MEMBERS_MAX} files or {BYTES_MAX} bytes")
    folders = {parent.as_posix() for path in listed for parent in PurePosixPath(path).parents}
    for path in listed:
        if path == MANIFEST or path.endswith(_OURS) or path in folders:
            raise Malformed(f"{where}: {path} cannot be a file in it; rename it")
    return tuple(sorted(listed.values(), key=lambda file: (file.bytes, file.path)))


def best_delta(
    offers: Iterable[DeltaOffer], wanted: File, have: Iterable[str]
) -> DeltaOffer | None:
    """The smallest that starts from something that is here and is worth it."""
    here = set(have)
    if wanted.bytes > DELTA_FILE_BYTES_MAX:
        return None
    fitting = [
        offer
        for offer in offers
        if offer.to_sha256 == wanted.sha256
        and offer.from_sha256 in here
        and 0 < offer.bytes <= wanted.bytes * DELTA_SHARE_MAX
    ]
    return min(fitting, key=lambda offer: (offer.bytes, offer.sha256), default=None)


def lacking_bytes(needed: int, free: int, margin: int) -> int:
    """Bytes that the disk lacks for `needed` more beside `margin`; 0 when they fit."""
    return max(0, needed + margin - free)
