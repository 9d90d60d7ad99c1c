"""Snapshots and timestamps, which the registry signs by itself, and when. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cloud.registry.trust import edits
from cloud.registry.trust.settings import TrustSettings
from shared.trust.names import ISSUED
from shared.trust.tuf_api import AnyMetadata, CryptoSigner, Root


def is_good(content: bytes | None, role: str, root: Root, now: datetime, left_days: float) -> bool:
    """Whether it is signed as the root says, for more than `left_days` yet, and not in the future:
    a clock that ran ahead and was put right leaves a timestamp that no device believes.
    """
    if content is None:
        return False
    metadata = edits.read(content, role, role)
    result = root.get_verification_result(role, metadata.signed_bytes, metadata.signatures)
    left: timedelta = metadata.signed.expires - now
    return result.verified and left > timedelta(days=left_days) and _issued(metadata) <= now


def resigned(
    root: Root,
    changed: Mapping[str, bytes],
    snapshot: bytes | None,
    timestamp: bytes | None,
    signers: Mapping[str, CryptoSigner],
    settings: TrustSettings,
    now: datetime,
    *,
    root_changed: bool = False,
) -> dict[str, bytes]:
    """A snapshot and a timestamp where new ones are due: by role; empty where none is.

    `changed`: new files of targets and models; `snapshot`, `timestamp`: those published. Raises
    `NotTrusted` when `signers` has too few of the root's keys.
    """
    files: dict[str, bytes] = {}
    if changed or not is_good(snapshot, "snapshot", root, now, settings.snapshot_days / 2):
        version = _after(snapshot, "snapshot")
        snapshot = edits.next_snapshot(snapshot, changed, now, settings.snapshot_days, version)
        files["snapshot"] = snapshot = _signed(snapshot, "snapshot", root, signers)
    assert snapshot is not None, "none is never good"
    if files or root_changed or not is_good(
        timestamp, "timestamp", root, now, settings.timestamp_left_days
    ):  # fmt: skip
        version = _after(timestamp, "timestamp")
        content = edits.next_timestamp(snapshot, now, settings.timestamp_days, version)
        files["timestamp"] = _signed(content, "timestamp", root, signers)
    return files


def due(timestamp: bytes | None, settings: TrustSettings, now: datetime) -> datetime:
    """When the next timestamp is to be signed; `now` where there is none that counts."""
    if timestamp is None:
        return now
    metadata = edits.read(timestamp, "timestamp", "timestamp")
    if _issued(metadata) > now:
        return now
    expires: datetime = metadata.signed.expires
    return expires - timedelta(days=settings.timestamp_left_days)


def _issued(metadata: AnyMetadata) -> datetime:
    """When a timestamp was signed, by the registry's clock; the others do not say it."""
    seconds = metadata.signed.unrecognized_fields.get(ISSUED, 0)
    return datetime.fromtimestamp(int(seconds), UTC)


def _after(content: bytes | None, role: str) -> int:
    if content is None:
        return 1
    version: int = edits.read(content, role, role).signed.version
    return version + 1


def _signed(content: bytes, role: str, root: Root, signers: Mapping[str, CryptoSigner]) -> bytes:
    return edits.sign(content, role, edits.signers_of(root.roles[role], signers, role))
