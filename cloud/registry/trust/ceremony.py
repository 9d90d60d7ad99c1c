"""The key ceremony: the first keys and the first root and targets, made on a person's machine.

What it writes lies in one folder: `root-1.pem` ... and `targets.pem`, to be kept offline and apart
from each other; `release.pem`, the operator's; `online/`, the two keys for the registry itself;
and `1.root.json`, `1.targets.json`, to be handed in, the root also for every device.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cloud.registry.trust import edits
from cloud.registry.trust.edits import Holders
from cloud.registry.trust.keys import create_key, write_new
from shared.errors import Conflict, Malformed

ROOT_DAYS = 730.0
TARGETS_DAYS = 365.0
ONLINE = "online"


@dataclass(frozen=True, slots=True)
class Ceremony:
    """What was made; the paths are in `folder`."""

    folder: Path
    root: bytes  # 1.root.json
    targets: bytes  # 1.targets.json
    online: Path  # the folder for `trust.online_keys`


def initialise(
    folder: Path,
    now: datetime,
    *,
    root_keys: int = 3,
    root_threshold: int = 2,
    password: bytes | None = None,
) -> Ceremony:
    """New keys for every role, signed first metadata. Refuses a folder that has keys.

    `password`: for the offline keys and the release key; the online ones have none, since the
    registry starts without a person. Raises `Conflict`, `Malformed`, `Unavailable`.
    """
    if not 1 <= root_threshold <= root_keys <= 32:
        raise Malformed(
            f"root: {root_threshold} of {root_keys} keys; want 1 to 32 keys, and no more signatures"
        )
    if any(folder.glob("*.pem")) or any(folder.glob("*.json")):
        raise Conflict(f"{folder}: has keys or metadata already; name an empty folder")
    roots = [
        create_key(folder / f"root-{number}.pem", password) for number in range(1, root_keys + 1)
    ]
    targets = create_key(folder / "targets.pem", password)
    create_key(folder / "release.pem", password)
    snapshot = create_key(folder / ONLINE / "snapshot.pem", None)
    timestamp = create_key(folder / ONLINE / "timestamp.pem", None)
    holders = {
        "root": Holders(tuple(key.public_key for key in roots), root_threshold),
        "targets": Holders((targets.public_key,)),
        "snapshot": Holders((snapshot.public_key,)),
        "timestamp": Holders((timestamp.public_key,)),
    }
    root = edits.sign(edits.new_root(holders, now, ROOT_DAYS), "root", roots)
    first = edits.sign(edits.new_targets(now, TARGETS_DAYS), "targets", [targets])
    write_new(folder / "1.root.json", root, 0o644)
    write_new(folder / "1.targets.json", first, 0o644)
    return Ceremony(folder, root, first, folder / ONLINE)
