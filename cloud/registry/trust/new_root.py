"""What a new root must be beside well signed: no key of the registry's machine may do more than sign
snapshots and timestamps, and an epoch begins with new ones. Pure.
"""

from shared.errors import NotTrusted
from shared.trust.chain import epoch_of
from shared.trust.tuf_api import Root

_ONLINE = ("snapshot", "timestamp")


def check_new_root(new: Root, old: Root | None, where: str) -> None:
    """`old`: the published one. Raises `NotTrusted`."""
    online = {keyid for role in _ONLINE for keyid in new.roles[role].keyids}
    for role in ("root", "targets"):
        if both := sorted(online & set(new.roles[role].keyids)):
            raise NotTrusted(
                f"{where}: key {both[0][:12]}... is an online key and may sign for {role}: whoever "
                f"takes over the registry would have it; name another key for {role}"
            )
    if old is not None:
        _check_epoch(new, old, where)


def _check_epoch(new: Root, old: Root, where: str) -> None:
    if epoch_of(new) < epoch_of(old):
        raise NotTrusted(
            f"{where}: its epoch {epoch_of(new)} is below the present one, {epoch_of(old)}"
        )
    if epoch_of(new) > epoch_of(old) and any(
        set(new.roles[role].keyids) & set(old.roles[role].keyids) for role in _ONLINE
    ):
        raise NotTrusted(
            f"{where}: raises the epoch and keeps an online key of the home before, which could go "
            "on signing; make new snapshot and timestamp keys"
        )
