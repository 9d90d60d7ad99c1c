"""The clients' process: `python -m simulations.broker_bench.worker`, a request on stdin."""

import asyncio
import dataclasses
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from simulations.broker_bench import latency, standing, throughput
from simulations.broker_bench.loads import Found, Load

LOADS: dict[str, Callable[[Load, str, int, int], Awaitable[Found]]] = {
    "throughput": throughput.measure,
    "latency": latency.measure,
    "slow-reader": standing.slow_reader,
    "idle": standing.idle,
}


async def _run(load: Load, host: str, port: int, pid: int) -> Found:
    """Run one load; an error in any callback of a connection ends it."""
    failed: asyncio.Future[Found] = asyncio.get_running_loop().create_future()

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not failed.done():
            problem = context.get("exception") or RuntimeError(context["message"])
            failed.set_exception(problem)

    asyncio.get_running_loop().set_exception_handler(fail)
    running = asyncio.ensure_future(LOADS[load.kind](load, host, port, pid))
    done, _ = await asyncio.wait((running, failed), return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    failed.cancel()
    return next(iter(done)).result()


def main() -> None:
    """Print what was found as one JSON line."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asked = json.load(sys.stdin)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(Load(**asked["load"]), *asked["broker"]))
    print(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    main()
