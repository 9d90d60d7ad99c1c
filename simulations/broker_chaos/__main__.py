"""`python -m simulations.broker_chaos`: exit code 1 when a check fails.

Mosquitto is there for information, and its exit code 0: it loses what it has not saved at kill -9,
grants every SUBSCRIBE and tells an intruder over 3.1.1 that all is well.
"""

import argparse
import json
import secrets
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simulations.broker_chaos.broker_process import free_port
from simulations.broker_chaos.plan import Plan
from simulations.broker_chaos.storm import Result, Storm, Weather

WRONG_SHOWN = 5
"""Violations printed of each check; all of them are in the JSON."""
switch = argparse.BooleanOptionalAction


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulations.broker_chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--seed", type=int, help="of all random choices; the clock is not among them"
    )
    parser.add_argument("--broker", choices=("embedded", "mosquitto"), default="embedded")
    parser.add_argument("--broker-kill-s", type=float, default=30.0, help="mean; 0: none")
    parser.add_argument("--client-kill-s", type=float, default=20.0, help="mean; 0: none")
    parser.add_argument("--state", action=switch, default=True, help="give it a state directory")
    parser.add_argument("--synchronous", choices=("full", "normal", "off"), default="full")
    parser.add_argument("--acl", action=switch, default=True)
    parser.add_argument("--passwords", action=switch, default=True)
    parser.add_argument("--rate", type=float, default=40.0, help="messages/s of each publisher")
    parser.add_argument("--pace", type=float, default=1.0, help="shorter lives of connections")
    parser.add_argument("--break", dest="broken", help="put a fault of `sabotage` into the broker")
    parser.add_argument("--json", action="store_true", help="the verdicts as JSON on the last line")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    mosquitto = options.broker == "mosquitto"
    folder = Path(tempfile.mkdtemp(prefix="hybridge-chaos-"))
    module = ("simulations.broker_chaos.sabotage", options.broken) if options.broken else None
    plan = Plan(
        free_port(), str(folder), seed, options.state, options.acl,
        options.passwords and not mosquitto, options.rate, options.pace,
    )  # fmt: skip
    weather = Weather(
        options.minutes * 60, options.broker, options.broker_kill_s, options.client_kill_s,
        options.state, options.synchronous, module or ("cloud.broker",),
    )  # fmt: skip
    print(f"seed {seed}, {options.broker} on port {plan.port}, files in {folder}", flush=True)
    result = Storm(plan, weather).run()
    failed = report(result)
    if options.json:
        print(json.dumps(asdict(result)))
    if not failed:
        shutil.rmtree(folder)
    return 1 if failed and not mosquitto else 0


def report(result: Result) -> bool:
    """Print the table and the first violations; whether there are any."""
    table = Table(title="Checks, after the storm", title_justify="left")
    for heading in ("what must be true", "looked at", "wrong", ""):
        table.add_column(heading, justify="right" if heading in ("looked at", "wrong") else "left")
    for one in result.verdicts:
        colour = "[bold red]" if one.wrong else ""
        table.add_row(one.name, f"{one.looked_at:,}", f"{colour}{len(one.wrong):,}", one.note)
    console = Console(width=110)
    console.print(table)
    for name, value in result.figures.items():
        print(f"{name}: {value:,.4g}" if value < 100 else f"{name}: {value:,.0f}")
    for one in result.verdicts:
        for words in one.wrong[:WRONG_SHOWN]:
            print(f"WRONG {one.name}: {words}")
    return any(one.wrong for one in result.verdicts)


if __name__ == "__main__":
    sys.exit(main())
