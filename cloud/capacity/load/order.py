"""What a load generator is told on its stdin: one JSON document."""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from cloud.capacity.load.arrivals import Stretch


@dataclass(frozen=True, slots=True)
class Messages:
    """HTTP requests, whole, sent in turn.

    `vary`: positions of bytes in each that are written anew for every request, so that no cache
    takes the load for one request that comes again.
    """

    each: tuple[bytes, ...]
    vary: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """`out` is the .npz file to write; `patience_s`: how long to wait for the last answers."""

    host: str
    port: int
    messages: Messages
    stretches: Sequence[Stretch]
    connections: int
    seed: int
    patience_s: float
    out: str

    def text(self) -> str:
        return json.dumps({
            "host": self.host, "port": self.port, "vary": self.messages.vary,
            "messages": [b64encode(one).decode() for one in self.messages.each],
            "stretches": [(one.per_second, one.seconds) for one in self.stretches],
            "connections": self.connections, "seed": self.seed, "patience_s": self.patience_s, "out": self.out,
        })  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> "Order":
        """Our own `text`, from our own parent: not checked."""
        said = json.loads(text)
        messages = Messages(tuple(b64decode(one) for one in said["messages"]), tuple(said["vary"]))
        return cls(
            said["host"], said["port"], messages, [Stretch(*one) for one in said["stretches"]],
            said["connections"], said["seed"], said["patience_s"], said["out"],
        )  # fmt: skip
