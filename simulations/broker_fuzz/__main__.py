"""`python -m simulations.broker_fuzz`: exit code 1 when something is found."""

import argparse
import multiprocessing
import secrets
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from simulations.broker_fuzz.campaign import Episode, Tally
from simulations.broker_fuzz.failures import Failure, save
from simulations.broker_fuzz.live import LiveReport, run_live

PROGRESS_S = 10.0
FAILURES_MAX = 20
"""Then it stops: the first ones are what matters."""


def main(arguments_given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulations.broker_fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--episode", type=int, help="run only this one again, in this process")
    parser.add_argument("--live", action=argparse.BooleanOptionalAction, default=True,
                        help="attack a broker process at the same time")  # fmt: skip
    parser.add_argument("--failures", type=Path, default=Path("runs/broker_fuzz"))
    arguments = parser.parse_args(arguments_given)
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    if arguments.episode is not None:
        found = Episode(seed, arguments.episode, Tally()).run()
        print(found.words() if found else "nothing found")
        return 1 if found else 0
    seconds = arguments.minutes * 60
    if not arguments.live:
        return conclude(*_campaign(seed, seconds, None), LiveReport(), arguments.failures)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        live = pool.submit(run_live, seed, seconds)
        tally, failures = _campaign(seed, seconds, live)
        return conclude(tally, failures, live.result(), arguments.failures)


def _campaign(
    seed: int, seconds: float, live: "Future[LiveReport] | None"
) -> tuple[Tally, list[Failure]]:
    tally = Tally()
    failures: list[Failure] = []
    began = time.monotonic()
    next_at = began + PROGRESS_S
    while (now := time.monotonic()) < began + seconds and len(failures) < FAILURES_MAX:
        found = Episode(seed, tally.episodes, tally).run()
        if found is not None:
            failures.append(found)
            print(found.words(), flush=True)
        if now >= next_at:
            next_at += PROGRESS_S
            rate = tally.packets / (now - began)
            ended = "" if live is None else "; live ended" if live.done() else "; live goes on"
            print(f"{now - began:5.0f} s: {tally.packets:,} packets ({rate:,.0f}/s), "
                  f"{tally.refused.total():,} refused, {len(failures)} findings{ended}",
                  flush=True)  # fmt: skip
    return tally, failures


def conclude(tally: Tally, failures: list[Failure], live: LiveReport, folder: Path) -> int:
    """Print what was done and what was found, and keep that; gives the exit code."""
    for failure in live.failures[:FAILURES_MAX]:
        print(failure.words())
    print(f"cores: {tally.packets:,} packets in {tally.episodes:,} episodes, "
          f"{tally.refused.total():,} refused by {len(tally.refused)} mutations, "
          f"{tally.accepted.total():,} broken ones that still meant something; "
          f"longest step {tally.step_cpu_s_max * 1e3:.1f} ms of CPU, "
          f"most allocated in one {tally.allocated_bytes_peak / 1024:,.0f} KiB")  # fmt: skip
    if live.connections:
        print(f"live: {live.packets:,} packets over {live.connections:,} connections, "
              f"{live.broken:,} broken; canary: {live.canary_messages:,} messages, slowest "
              f"{live.canary_latency_s_max * 1e3:.0f} ms; broker's memory "
              f"{live.rss_bytes_max / 1e6:.0f} MB at most")  # fmt: skip
    failures = failures + live.failures
    for failure in failures:
        print(f"kept: {save(failure, folder)}")
    print("nothing found" if not failures else f"{len(failures)} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
