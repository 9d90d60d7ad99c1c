"""A finding as a file: what it was, the seed that makes it again, the bytes that were sent."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Failure:
    """One finding."""

    seed: int
    episode: int
    doing: str
    """What was sent, in words."""
    kind: str
    """`escaped`: an exception that is not ours; `wrong`: an answer or a cost; `live`: over TCP."""
    what: str
    sent_hex: str
    """All bytes of the connection, oldest first."""

    def words(self) -> str:
        """For people: the finding and how to see it again."""
        tail = self.sent_hex[-400:]
        again = ""
        if self.kind != "live":
            command = "python -m simulations.broker_fuzz"
            again = f"\n  again: {command} --seed {self.seed} --episode {self.episode}"
        return f"{self.kind}: {self.doing}: {self.what}{again}\n  bytes: ...{tail}"


def save(failure: Failure, folder: Path) -> Path:
    """Write it as JSON; one file for each."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failure.kind}-{failure.seed}-{failure.episode}.json"
    path.write_text(json.dumps(asdict(failure), indent=1) + "\n", encoding="utf-8")
    return path
