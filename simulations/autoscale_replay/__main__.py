"""`python -m simulations.autoscale_replay`: both policies on the recorded loads, as a table."""

import argparse
from typing import get_args

from cloud.capacity.autoscaling import Scaling
from simulations.autoscale_replay.fleet import Machine
from simulations.autoscale_replay.record import TRACES
from simulations.autoscale_replay.replay import Outcome, Policy, replay
from simulations.autoscale_replay.trace import Trace, read

MEASURED = Machine(qps_at_sla=2577, qps_max=2794)
"""What `hybridge capacity measure` found for models/fashion-cloud on one core of a 2-core machine."""
PEAK_WORKERS = 12
"""What a trace's busiest second would need, if all of a worker's QPS at the SLA were used."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--qps-at-sla", type=float, default=MEASURED.qps_at_sla, help="of one worker"
    )
    parser.add_argument(
        "--qps-max", type=float, default=MEASURED.qps_max, help="with its CPU fully used"
    )
    parser.add_argument("--sla-ms", type=float, default=50.0)
    parser.add_argument("--start-s", type=float, default=60.0, help="from wanted to ready")
    asked = parser.parse_args()
    machine = Machine(asked.qps_at_sla, asked.qps_max, asked.sla_ms / 1e3, asked.start_s)
    print(
        f"one worker: {machine.qps_at_sla:g}/s within {asked.sla_ms:g} ms, "
        f"{machine.qps_max:g}/s at most, ready after {machine.start_s:g} s"
    )
    print(f"{'load':<10}{'policy':<14}{'over the SLA':>14}{'worker-hours':>14}{'most':>7}")
    for trace in traces():
        for one in compare(trace, machine):
            print(
                f"{trace.name:<10}{one.policy:<14}{one.over_share:>14.3%}"
                f"{one.worker_hours:>14.1f}{one.workers_max:>7}"
            )


def traces() -> list[Trace]:
    """Those that are kept here."""
    return [read(path.stem, path.read_text()) for path in sorted(TRACES.glob("*.csv"))]


def compare(trace: Trace, machine: Machine) -> list[Outcome]:
    """Both policies on one load."""
    scaling = Scaling(qps_at_sla=machine.qps_at_sla, workers_max=2 * PEAK_WORKERS)
    rates = trace.scaled(PEAK_WORKERS * machine.qps_at_sla)
    policies: tuple[Policy, ...] = get_args(Policy)
    return [replay(policy, rates, trace.stands_for_s, machine, scaling) for policy in policies]


if __name__ == "__main__":
    main()
