"""Which models leave memory when another one comes. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.errors import Overloaded, TooLarge

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """One version of a model."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class Resident:
    """A loaded version. Times are seconds of one monotonic clock."""

    key: Key
    memory_bytes: int
    used_at: float
    active: bool  # its model's name leads here
    busy: bool  # work is queued or runs
    pinned: bool


def rising(versions: Iterable[str]) -> tuple[str, ...]:
    """By number: 1.10.0 comes after 1.9.0."""
    return tuple(sorted(versions, key=lambda version: [int(part) for part in version.split(".")]))


def room_for(
    key: Key,
    needed_bytes: int,
    residents: Sequence[Resident],
    *,
    leaving_bytes: int,
    bytes_max: int,
) -> tuple[Key, ...]:
    """Whom to unload so that `needed_bytes` more fit; () when they do.

    Versions that no name leads to go first, then the rest, each least recently used first. Never a
    version with work, a pinned one, or the active one of the model that `key` is to replace: its
    requests would find nothing meanwhile. `leaving_bytes` are those of versions that
    finish their work before they go. Raises `TooLarge` when nothing can make it fit, `Overloaded`
    when it would once work is finished.
    """
    missing = sum(r.memory_bytes for r in residents) + leaving_bytes + needed_bytes - bytes_max
    firm = [r for r in residents if r.pinned or (r.active and r.key.name == key.name)]
    if sum(r.memory_bytes for r in firm) + needed_bytes > bytes_max:
        raise TooLarge(_never(key, needed_bytes, bytes_max, firm))
    chosen: list[Key] = []
    for resident in sorted(residents, key=lambda r: (r.active, r.used_at, r.key)):
        if missing <= 0:
            break
        if resident not in firm and not resident.busy:
            chosen.append(resident.key)
            missing -= resident.memory_bytes
    if missing > 0:
        raise Overloaded(
            f"{key} needs {_mib(needed_bytes)} and every loaded model that could leave has work in "
            "hand; try again, or raise pool.memory_bytes_max"
        )
    return tuple(chosen)


def surplus(name: str, residents: Sequence[Resident], versions_max: int) -> tuple[Key, ...]:
    """The versions of a model above `versions_max`, least recently used; never the active one."""
    versions = [r for r in residents if r.key.name == name]
    others = sorted((r for r in versions if not r.active), key=lambda r: (r.used_at, r.key))
    return tuple(r.key for r in others[: max(0, len(versions) - versions_max)])


def _never(key: Key, needed_bytes: int, bytes_max: int, firm: Sequence[Resident]) -> str:
    held = f" beside {', '.join(str(r.key) for r in firm)}, which stay" if firm else ""
    return (
        f"{key} needs {_mib(needed_bytes)} and does not fit into the {_mib(bytes_max)} of "
        f"pool.memory_bytes_max{held}; raise it, or unload one first"
    )


def _mib(count: int) -> str:
    return f"{count / _MIB:.1f} MiB"
