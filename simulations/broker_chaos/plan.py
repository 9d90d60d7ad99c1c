"""Who takes part in a storm and what each may do: read by the storm, its clients and the checks.

Topics: `up/{publisher}/q{qos}` for messages, `state/{publisher}` retained, `slow/{n}` for readers
that do not keep up, `wills/{client}`, `open/...` for anybody. A message is its id and padding; an
id is `{publisher}/{number}`, and numbers of one publisher and topic grow.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from cloud.broker.codec.topics import matches

Way = Literal["read", "write"]

PASSWORD: Final = "a password for {}"  # noqa: S105  of a storm that ends
GRANTS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "reader": (("read", "up/#"), ("read", "wills/#"), ("read", "state/#"), ("read", "slow/#")),
    "member": (("read", "up/+/q1"),),
    "guest": (("read", "state/#"), ("readwrite", "open/#")),
    "intruder": (("readwrite", "open/#"),),
    "noise": (("readwrite", "open/#"),),
}
"""By user name: what each may do, in the words of an ACL file. A publisher's is its client id."""
PATTERNS: Final = (
    ("write", "up/%u/#"), ("write", "state/%u"), ("write", "slow/%u"), ("write", "wills/%c"),
)  # fmt: skip
"""What everybody may do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One storm."""

    port: int
    folder: str
    seed: int
    durable: bool = True
    """The broker is expected to keep sessions over its kill -9."""
    acl: bool = True
    passwords: bool = True
    rate_per_s: float = 40.0
    """Messages of each publisher."""
    pace: float = 1.0
    """Divides the times between cuts; short runs need more of them."""

    def journal(self, worker: str) -> Path:
        """Where a client process writes."""
        return Path(self.folder) / f"{worker}.journal"

    def save(self, path: Path) -> None:
        """Write it for the client processes."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Plan":
        """Read it."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class PublisherRole:
    """A publisher with a session of its own, which resends what was not acknowledged."""

    client_id: str
    topic: str
    qos: Literal[1, 2]
    version: Literal[4, 5] = 5
    retain: bool = False
    window: int = 20
    payload_bytes: int = 200


@dataclass(frozen=True, slots=True)
class ReaderRole:
    """A subscriber with a session that outlives connections, processes and brokers."""

    client_id: str
    user: str
    filters: tuple[tuple[str, int], ...]
    version: Literal[4, 5] = 5
    is_slow: bool = False
    may_miss: bool = False
    """Another reads the same topic, so a publisher hears success though this one's queue is full."""
    may_hold_back: bool = False
    """Dies with unacknowledged messages on purpose."""

    @property
    def is_member(self) -> bool:
        """Whether it reads for a share group."""
        return self.filters[0][0].startswith("$share/")


PUBLISHERS: Final = (
    PublisherRole("p0", "up/p0/q1", 1),
    PublisherRole("p1", "up/p1/q1", 1, version=4),
    PublisherRole("p2", "up/p2/q2", 2),
    PublisherRole("p3", "up/p3/q2", 2),
    PublisherRole("p4", "up/p4/q2", 2, version=4),
    PublisherRole("p5", "up/p5/q1", 1, payload_bytes=2_000),
    PublisherRole("s0", "state/s0", 1, retain=True, window=1),
    PublisherRole("s1", "state/s1", 1, retain=True, window=1),
    PublisherRole("both", "slow/both", 1, window=10, payload_bytes=32_000),
    PublisherRole("big", "slow/big", 1, window=10, payload_bytes=32_000),
)
_ALL: Final = (("up/#", 2), ("wills/#", 1))
READERS: Final[Mapping[str, tuple[ReaderRole, ...]]] = {
    "readers-a": (
        ReaderRole("r0", "reader", _ALL),
        ReaderRole("m0", "member", (("$share/g/up/+/q1", 1),), may_hold_back=True),
        ReaderRole("m1", "member", (("$share/g/up/+/q1", 1),), may_hold_back=True),
        ReaderRole("slow", "reader", (("slow/big", 1),), is_slow=True),
    ),
    "readers-b": (
        ReaderRole("r1", "reader", _ALL, version=4),
        ReaderRole("r2", "reader", (("up/+/q2", 2), ("up/p0/#", 1))),
        ReaderRole("keen", "reader", (("slow/both", 1),), may_miss=True),
        ReaderRole("lazy", "reader", (("slow/both", 1),), is_slow=True, may_miss=True),
        ReaderRole("m2", "member", (("$share/g/up/+/q1", 1),), may_hold_back=True),
    ),
}
"""By client process."""


def may(user: str, client_id: str, way: Way, topic: str) -> bool:
    """Say whether the ACL lets a user read or write a topic."""
    granted = [*GRANTS.get(user, ())]
    granted += [(how, each.replace("%u", user).replace("%c", client_id)) for how, each in PATTERNS]
    return any(how in (way, "readwrite") and matches(each, topic) for how, each in granted)


def users() -> tuple[str, ...]:
    """Give every user name."""
    return (*GRANTS, *(role.client_id for role in PUBLISHERS))


def acl_text() -> str:
    """Write the ACL file; Mosquitto reads it too."""
    lines: list[str] = []
    for user, grants in GRANTS.items():
        lines.append(f"user {user}")
        lines += [f"topic {how} {topic_filter}" for how, topic_filter in grants]
    lines += [f"pattern {how} {topic_filter}" for how, topic_filter in PATTERNS]
    return "\n".join(lines) + "\n"
