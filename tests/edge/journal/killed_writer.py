"""Records samples until it is killed; prints the ids of those that are on disk for certain.

python killed_writer.py STATE_DB SEED
"""

import asyncio
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from edge.answers import Cursor
from edge.journal.journal import Journal
from edge.journal.writes import Accepted, Bounds, Closed, GivenUp, Opened, Write
from tests.edge.samples import final, given_up, pending


async def main(path: Path, rng: random.Random) -> None:
    journal = Journal(path, Bounds(1_000_000), gap_s_max=60)
    writing = asyncio.create_task(journal.run())
    count = int(journal.cursor("replay") or 0)
    open_rows = [journal.pending(row.id) for row in journal.outbox()]
    while not writing.done():
        names = list[str]()
        for _ in range(rng.randint(1, 5)):
            rows = [pending(size=rng.randint(1, 5000)) for _ in range(rng.randint(1, 8))]
            count += len(rows)
            writes: list[Write] = [
                Opened(p) if rng.random() < 0.6 else Accepted(final(p, source="edge")) for p in rows
            ]
            journal.move(Cursor("replay", str(count)), *writes)
            open_rows += [w.pending for w in writes if isinstance(w, Opened)]
            names += [p.id.hex for p in rows]
            rng.shuffle(open_rows)
            for p in open_rows[: rng.randint(0, 4)]:
                assert p is not None
                lost = rng.random() < 0.3
                journal.record(GivenUp(given_up(p, "expired")) if lost else Closed(final(p)))
                open_rows.remove(p)
        await journal.durable()
        print(*names, flush=True)


asyncio.run(main(Path(sys.argv[1]), random.Random(int(sys.argv[2]))))
