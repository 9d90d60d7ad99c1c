"""What there is to know of a registry's trust: roles, expiries, keys, what waits. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from cloud.registry.trust import edits
from cloud.registry.trust.acceptance import Waiting, judge
from cloud.registry.trust.published_files import Found
from shared.trust.chain import epoch_of
from shared.trust.tuf_api import AnyMetadata, Root, Targets


@dataclass(frozen=True, slots=True)
class RoleStatus:
    role: str
    version: int
    expires: datetime  # UTC
    keys: tuple[str, ...]  # ids of the keys that may sign it
    threshold: int  # 0: delegated no more


@dataclass(frozen=True, slots=True)
class TrustStatus:
    epoch: int  # 0: nobody has handed in a root yet
    roles: tuple[RoleStatus, ...]  # the one that expires first comes first
    staged: tuple[Waiting, ...]
    is_online: bool  # whether this registry can sign snapshots and timestamps


def status_of(
    found: Found, staged: Mapping[str, bytes], online: Collection[str], now: datetime
) -> TrustStatus:
    """`online`: ids of the keys that this registry holds."""
    published = found.published
    waiting = judge(published, staged, online, now).waiting
    if published.root is None:
        return TrustStatus(0, (), waiting, is_online=False)
    root: Root = published.root.signed
    roles = [_role("root", published.root, root)]
    for role, content in (("timestamp", found.timestamp), ("snapshot", found.snapshot)):
        if content is not None:
            roles.append(_role(role, edits.read(content, role, role), root))
    if published.targets is not None:
        roles.append(_role("targets", published.targets, root))
        for role, metadata in published.models.items():
            roles.append(_role(role, metadata, published.targets.signed))
    return TrustStatus(
        epoch=epoch_of(root),
        roles=tuple(sorted(roles, key=lambda one: (one.expires, one.role))),
        staged=waiting,
        is_online=all(
            len(set(root.roles[role].keyids) & set(online)) >= root.roles[role].threshold
            for role in ("snapshot", "timestamp")
        ),
    )


def _role(role: str, metadata: AnyMetadata, delegator: Root | Targets) -> RoleStatus:
    try:
        holders = delegator.get_delegated_role(role)
    except ValueError:  # delegated no more
        return RoleStatus(role, metadata.signed.version, metadata.signed.expires, (), 0)
    return RoleStatus(
        role=role,
        version=metadata.signed.version,
        expires=metadata.signed.expires,
        keys=tuple(holders.keyids),
        threshold=holders.threshold,
    )
