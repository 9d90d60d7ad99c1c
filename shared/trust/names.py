"""Names and bounds of the registry's TUF metadata (specification 1.0.31, sections 4 and 6).

Every model has a role of its own, so that a device reads its model's releases and no others.
"""

import re

from shared.bundle.manifest import VERSION
from shared.errors import Malformed

ROOT_BYTES_MAX = 64 * 1024  # 64 keys are 15 KB
TIMESTAMP_BYTES_MAX = 16 * 1024
SNAPSHOT_BYTES_MAX = 2 * 1024**2  # 150 a model: 10,000 models are 1.5 MB
TARGETS_BYTES_MAX = 4 * 1024**2  # 250 a model
MODEL_BYTES_MAX = 1024**2  # 220 a release
RELEASES_MAX = 4_000  # of one model
ROOTS_MAX = 256  # versions of the root that one walk may pass
VERSION_MAX = 2**31 - 1

EPOCH = "x-hybridge-epoch"
"""Member of the root: how many homes the registry has had. An older home's logs are refused."""
ISSUED = "x-hybridge-issued"
"""Member of the timestamp: Unix seconds at which it was signed, by the registry's clock."""

_NAME = r"[a-z0-9][a-z0-9-]{0,63}"
_ROLE = re.compile(rf"root|targets|snapshot|timestamp|model-{_NAME}")
_FILE = re.compile(rf"(?:([1-9][0-9]{{0,9}})\.)?({_ROLE.pattern})\.json")
_TARGET = re.compile(rf"({_NAME})/({VERSION})/manifest\.json")


def model_role(model: str) -> str:
    """The delegated role that names this model's releases."""
    return f"model-{model}"


def model_of(role: str) -> str | None:
    """The model whose role this is; None for root, targets, snapshot and timestamp."""
    return role.removeprefix("model-") if role.startswith("model-") else None


def model_paths(model: str) -> list[str]:
    """What a model's role may name: manifests of its own versions, nothing else."""
    return [f"{model}/*/*"]


def target_path(model: str, version: str) -> str:
    return f"{model}/{version}/manifest.json"


def parse_target(path: str) -> tuple[str, str] | None:
    """(model, version) of a target path; None when it is no release's manifest."""
    found = _TARGET.fullmatch(path)
    return None if found is None else (found[1], found[2])


def file_name(role: str, version: int) -> str:
    """As it is fetched and stored: `5.snapshot.json`; the timestamp alone has no number."""
    return "timestamp.json" if role == "timestamp" else f"{version}.{role}.json"


def parse_file_name(name: str) -> tuple[str, int | None]:
    """(role, version) of a file's name. Raises `Malformed`."""
    found = _FILE.fullmatch(name)
    if found is None or (found[1] is None) != (found[2] == "timestamp"):
        raise Malformed(
            f"{name[:80]!r}: no name of trust metadata; they are `timestamp.json` and, with a "
            "version, `3.root.json`, `5.snapshot.json`, `2.targets.json`, `7.model-NAME.json`"
        )
    return found[2], None if found[1] is None else int(found[1])


def parse_role(text: str) -> str:
    """A role's name as it came in. Raises `Malformed`."""
    if _ROLE.fullmatch(text) is None:
        raise Malformed(
            f"{text[:80]!r}: no role; they are root, targets, snapshot, timestamp, model-NAME"
        )
    return text


def bytes_max(role: str) -> int:
    """The most that a role's file may have."""
    return {
        "root": ROOT_BYTES_MAX,
        "timestamp": TIMESTAMP_BYTES_MAX,
        "snapshot": SNAPSHOT_BYTES_MAX,
        "targets": TARGETS_BYTES_MAX,
    }.get(role, MODEL_BYTES_MAX)
