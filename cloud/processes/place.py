"""Which of several serving processes this one is, and what its parent told it."""

import json
from dataclasses import asdict, dataclass

from shared.errors import Malformed


@dataclass(frozen=True, slots=True)
class Place:
    """`index` counts from 0; the first one also does what only one may do (near-line windows)."""

    index: int
    count: int
    api_port: int
    broker_url: str  # with its owner's password, so it travels on a pipe and never in argv

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> "Place":
        try:
            return cls(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise Malformed("--child is for `hybridge-cloud serve --processes` itself") from error
