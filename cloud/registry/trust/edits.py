"""New versions of signed metadata: bytes in, unsigned bytes out, and `sign`. Pure.

Each edit raises the version, sets the expiry and drops the signatures: those were for other bytes.
"""

from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cloud.registry.documents import StoredFile
from shared.errors import Conflict, Malformed, NotTrusted, Unknown
from shared.trust import profile
from shared.trust.names import (
    EPOCH,
    ISSUED,
    RELEASES_MAX,
    model_paths,
    model_role,
    target_path,
)
from shared.trust.tuf_api import (
    AnyMetadata,
    CryptoSigner,
    DelegatedRole,
    Delegations,
    Key,
    Metadata,
    MetaFile,
    Role,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from shared.trust.walk import releases_of


@dataclass(frozen=True, slots=True)
class Holders:
    """Who may sign for a role, and how many of them must."""

    keys: tuple[Key, ...]
    threshold: int = 1


def read(content: bytes, role: str, where: str) -> AnyMetadata:
    """Checked for form, not for who signed it. Raises `Malformed`, `TooLarge`."""
    profile.check(content, role, where)
    return Metadata.from_bytes(content)


def sign(content: bytes, role: str, signers: Iterable[CryptoSigner]) -> bytes:
    """With these signatures beside those that it has. Raises `Malformed`, `TooLarge`."""
    metadata = read(content, role, role)
    for signer in signers:
        metadata.sign(signer, append=True)
    return metadata.to_bytes()


def new_root(
    holders: Mapping[str, Holders], now: datetime, days: float, *, epoch: int = 1
) -> bytes:
    """The first root; `holders` by role: root, targets, snapshot, timestamp."""
    root = Root(expires=_after(now, days), unrecognized_fields={EPOCH: epoch})
    _set_holders(root, holders)
    return _checked(Metadata(root), "root")


def next_root(
    content: bytes,
    now: datetime,
    days: float,
    *,
    holders: Mapping[str, Holders] | None = None,
    epoch: int | None = None,
) -> bytes:
    """The next root, with other holders for the roles named and the rest as it was.

    It needs enough signatures of the present root's keys and of its own. Raises `Malformed`.
    """
    metadata = read(content, "root", "root")
    root = metadata.signed
    root.version += 1
    root.expires = _after(now, days)
    if epoch is not None:
        root.unrecognized_fields[EPOCH] = epoch
    _set_holders(root, holders or {})
    return _checked(Metadata(root), "root")


def new_targets(now: datetime, days: float) -> bytes:
    """The first targets: no models yet."""
    return _checked(
        Metadata(Targets(expires=_after(now, days), delegations=Delegations({}, {}))), "targets"
    )


def with_delegation(
    content: bytes, models: Mapping[str, Holders], now: datetime, days: float
) -> bytes:
    """Targets that give these models' releases to these keys, in place of any before."""
    metadata = read(content, "targets", "targets")
    targets: Targets = metadata.signed
    delegations = targets.delegations or Delegations({}, {})
    targets.delegations = delegations
    roles = delegations.roles
    assert roles is not None, "the profile refuses succinct roles"
    for model, holders in models.items():
        name = model_role(model)
        roles[name] = DelegatedRole(
            name,
            [key.keyid for key in holders.keys],
            holders.threshold,
            terminating=True,
            paths=model_paths(model),
        )
        delegations.keys.update({key.keyid: key for key in holders.keys})
    used = {keyid for role in roles.values() for keyid in role.keyids}
    delegations.keys = {keyid: key for keyid, key in delegations.keys.items() if keyid in used}
    return _next(targets, "targets", now, days)


def renewed(content: bytes, role: str, now: datetime, days: float) -> bytes:
    """Targets or a model's role as it is, with a later expiry: to be signed anew."""
    return _next(read(content, role, role).signed, role, now, days)


def with_release(
    content: bytes | None,
    model: str,
    version: str,
    manifest: StoredFile,
    now: datetime,
    days: float,
    *,
    gone: Collection[str] = (),
) -> bytes:
    """The model's role with this version as its newest; None: its first. `gone`: versions that are
    retired, which it leaves out. Raises `Conflict`.
    """
    role = model_role(model)
    if content is None:
        targets = Targets(version=1, expires=_after(now, days))
        targets.version = 0
    else:
        targets = read(content, role, role).signed
    _leave_out(targets, model, gone)
    releases = releases_of(targets, model)
    path = target_path(model, version)
    if path not in targets.targets and len(releases) >= RELEASES_MAX:
        raise Conflict(f"{role}: {RELEASES_MAX} versions are released; retire some of them")
    number = releases[0].number + 1 if releases else 1
    targets.targets[path] = TargetFile(
        manifest.bytes,
        {"sha256": manifest.sha256},
        path,
        {"custom": {"hybridge": {"number": number}}},
    )
    return _next(targets, role, now, days)


def without_release(
    content: bytes,
    model: str,
    version: str,
    now: datetime,
    days: float,
    *,
    gone: Collection[str] = (),
) -> bytes:
    """The model's role without this version, and without those that are `gone` already. Raises
    `Unknown` where it does not name it.
    """
    role = model_role(model)
    targets: Targets = read(content, role, role).signed
    if targets.targets.pop(target_path(model, version), None) is None:
        raise Unknown(f"{role} {targets.version}: {version} is not released")
    _leave_out(targets, model, gone)
    return _next(targets, role, now, days)


def next_snapshot(
    before: bytes | None, changed: Mapping[str, bytes], now: datetime, days: float, version: int
) -> bytes:
    """A snapshot with these roles' new files beside those that the one before lists."""
    meta: dict[str, MetaFile] = {}
    if before is not None:
        meta.update(read(before, "snapshot", "snapshot").signed.meta)
    for role, content in changed.items():
        meta[f"{role}.json"] = _meta_file(read(content, role, role).signed.version, content)
    snapshot = Snapshot(version=version, expires=_after(now, days), meta=meta)
    return _checked(Metadata(snapshot), "snapshot")


def listing(files: Mapping[str, tuple[int, StoredFile]], version: int, now: datetime) -> bytes:
    """A snapshot of this version that nobody signed: in place of one that the store lost, to make
    the next one from. `files`: every role's newest, with its version.
    """
    meta = {
        f"{role}.json": MetaFile(number, file.bytes, {"sha256": file.sha256})
        for role, (number, file) in files.items()
    }
    return _checked(
        Metadata(Snapshot(version=version, expires=_after(now, 0), meta=meta)), "snapshot"
    )


def next_timestamp(snapshot: bytes, now: datetime, days: float, version: int) -> bytes:
    """A timestamp for this snapshot."""
    timestamp = Timestamp(
        version=version,
        expires=_after(now, days),
        snapshot_meta=_meta_file(read(snapshot, "snapshot", "snapshot").signed.version, snapshot),
        unrecognized_fields={ISSUED: int(now.timestamp())},
    )
    return _checked(Metadata(timestamp), "timestamp")


def signers_of(role: Role, signers: Mapping[str, CryptoSigner], what: str) -> list[CryptoSigner]:
    """Those of `signers` that the role names, as many as it needs. Raises `NotTrusted`."""
    found = [signers[keyid] for keyid in role.keyids if keyid in signers]
    if len(found) < role.threshold:
        raise NotTrusted(
            f"{what}: needs {role.threshold} of the keys "
            f"{', '.join(keyid[:12] for keyid in role.keyids)}, and only {len(found)} of them are "
            "here; add the files of the missing ones"
        )
    return found[: role.threshold]


def _leave_out(targets: Targets, model: str, versions: Collection[str]) -> None:
    for version in versions:
        targets.targets.pop(target_path(model, version), None)


def _next(targets: Targets, role: str, now: datetime, days: float) -> bytes:
    targets.version += 1
    targets.expires = _after(now, days)
    return _checked(Metadata(targets), role)


def _set_holders(root: Root, holders: Mapping[str, Holders]) -> None:
    for name, new in holders.items():
        if name not in root.roles:
            raise Malformed(
                f"{name}: no top-level role; they are root, targets, snapshot, timestamp"
            )
        role = root.roles[name]
        role.keyids = [key.keyid for key in new.keys]
        role.threshold = new.threshold
        root.keys.update({key.keyid: deepcopy(key) for key in new.keys})
    used = {keyid for role in root.roles.values() for keyid in role.keyids}
    root.keys = {keyid: key for keyid, key in root.keys.items() if keyid in used}


def _meta_file(version: int, content: bytes) -> MetaFile:
    return MetaFile.from_data(version, content, ["sha256"])


def _checked(metadata: AnyMetadata, role: str) -> bytes:
    """Never hand out what devices would refuse."""
    content = metadata.to_bytes()
    profile.check(content, role, f"new {role}")
    return content


def _after(now: datetime, days: float) -> datetime:
    return (now.astimezone(UTC) + timedelta(days=days)).replace(microsecond=0)
