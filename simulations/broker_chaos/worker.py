"""One client process of a storm: `python -m simulations.broker_chaos.worker NAME PLAN`.

Prints `ready` once its clients are subscribed. SIGUSR1: no more chaos. SIGTERM: publishers finish
what is outstanding and end; others end at once. It also ends with its stdin, so with the storm.
"""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from simulations.broker_chaos.guests import Guests
from simulations.broker_chaos.journal import Journal, Tail
from simulations.broker_chaos.plan import PUBLISHERS, READERS, Plan
from simulations.broker_chaos.publisher import Publisher
from simulations.broker_chaos.reader import Reader


class _Parent(asyncio.Protocol):
    """Sees the storm's process end."""

    def __init__(self, whole: "asyncio.Task[None]") -> None:
        self._whole = whole

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._whole.cancel()


def _stop(publishers: list[Publisher]) -> None:
    for publisher in publishers:
        publisher.stop.set()


async def work(name: str, plan: Plan) -> None:
    """Run the clients of one process until it is told to end."""
    loop = asyncio.get_running_loop()
    whole = asyncio.current_task()
    assert whole is not None
    await loop.connect_read_pipe(lambda: _Parent(whole), sys.stdin)
    before = list(Tail(plan.journal(name)).read())
    journal = Journal(plan.journal(name))
    loop.add_signal_handler(signal.SIGTERM, whole.cancel)
    try:
        async with asyncio.TaskGroup() as clients:
            if name == "publishers":
                publishers = [Publisher(plan, role, journal) for role in PUBLISHERS]
                for signal_number in (signal.SIGTERM, signal.SIGUSR1):
                    loop.add_signal_handler(signal_number, _stop, publishers)
                for publisher in publishers:
                    clients.create_task(publisher.run())
                print("ready", flush=True)
            elif name == "guests":
                print("ready", flush=True)
                clients.create_task(Guests(plan, journal).run())
            else:
                readers = [Reader(plan, role, journal, before) for role in READERS[name]]
                loop.add_signal_handler(
                    signal.SIGUSR1,
                    lambda: [clients.create_task(one.calm_down()) for one in readers],
                )
                for reader in readers:
                    clients.create_task(reader.run())
                for reader in readers:
                    await reader.ready.wait()
                print("ready", flush=True)
    finally:
        journal.close()


def main() -> int:
    """Run until told to end; 0 then."""
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(work(sys.argv[1], Plan.load(Path(sys.argv[2]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
