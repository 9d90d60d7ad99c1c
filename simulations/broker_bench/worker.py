"""The clients' process: `python -m simulations.broker_bench.worker`, a request on stdin."""

import asyncio
import dataclasses
import json
import resource
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvloop

from simulations.broker_bench import latency, standing, throughput
from simulations.broker_bench.loads import Broker, Found, Load

ONE_BY_ONE: dict[str, Callable[[Load, Broker], Awaitable[Found]]] = {
    "throughput": throughput.measure,
    "slow-reader": standing.slow_reader,
    "idle": standing.idle,
}


async def _measure(load: Load, brokers: Sequence[Broker]) -> list[Found]:
    if load.kind == "latency":
        return await latency.measure(load, brokers)
    return [await ONE_BY_ONE[load.kind](load, broker) for broker in brokers]


async def _run(load: Load, brokers: Sequence[Broker]) -> list[Found]:
    """Run one load; an error in any callback of a connection ends it."""
    failed: asyncio.Future[list[Found]] = asyncio.get_running_loop().create_future()

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not failed.done():
            problem = context.get("exception") or RuntimeError(context["message"])
            failed.set_exception(problem)

    asyncio.get_running_loop().set_exception_handler(fail)
    running = asyncio.ensure_future(_measure(load, brokers))
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
        found = runner.run(_run(Load(**asked["load"]), [Broker(*one) for one in asked["brokers"]]))
    print(json.dumps([dataclasses.asdict(one) for one in found]))


if __name__ == "__main__":
    main()
