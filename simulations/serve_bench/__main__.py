"""`make bench-serve`: our inference tier beside its peers; exit code 1 when a target is missed.

Twenty minutes with every part and peer. `--only cells --peers mosec triton --rounds 1` is quicker.
`python -m simulations.serve_bench install [PEER...]` only installs.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, assert_never, get_args

from pydantic import BaseModel, ValidationError
from rich.console import Console

from shared.errors import HybridgeError
from simulations.serve_bench import cells, mixed, model, mqtt_path, overload, report
from simulations.serve_bench.install import install
from simulations.serve_bench.machine import machine
from simulations.serve_bench.peers import DEFAULT, PEERS, REPOSITORY
from simulations.serve_bench.results import Part, Results, merged
from simulations.serve_bench.verdicts import missing, verdicts

PARTS: Final[tuple[Part, ...]] = get_args(Part)
_STEPS: Final = Console(stderr=True, highlight=False, markup=False)


def main() -> int:
    """Measure, write, print the targets, and say whether every one is met."""
    arguments = _parser().parse_args()
    if arguments.command == "install":
        failed = install(arguments.peer or DEFAULT, is_lasting=False)
        for name, why in failed.items():
            print(f"{name}: {why}", file=sys.stderr)
        return 1 if failed else 0
    if shutil.which("wrk") is None:
        print("wrk is not installed: apt-get install wrk", file=sys.stderr)
        return 2
    found: list[BaseModel] = []
    failed_parts: dict[Part, str] = {}
    with tempfile.TemporaryDirectory(prefix="hybridge-serve-bench-") as scratch:
        material = model.make(Path(scratch))
        for part in arguments.only:
            _STEPS.print(f"measuring {part}")
            try:
                found.append(_measure(part, arguments, material, Path(scratch)))
            except HybridgeError as error:  # the other parts are worth having
                _STEPS.print(f"failed: {error}")
                failed_parts[part] = str(error)
    results = merged(_read(arguments.json), machine(), found, failed_parts)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(results.model_dump_json(indent=1))
    if arguments.plot is not None and results.cells is not None:
        from simulations.serve_bench.plot import draw  # noqa: PLC0415  slow to import

        draw(results.cells, arguments.plot)
    if arguments.write is not None:
        picture = "" if arguments.plot is None else arguments.plot.as_posix()
        text = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(report.replaced(text, results, picture), encoding="utf-8")
    print(report.block(results))
    now = merged(None, results.machine, found, failed_parts)  # not what earlier runs left
    return 0 if not missing(now) and all(one.met for one in verdicts(now)) else 1


def _measure(
    part: Part, arguments: argparse.Namespace, material: model.Material, scratch: Path
) -> BaseModel:
    say: Callable[[str], None] = _STEPS.print
    match part:
        case "cells":
            plan = cells.Plan(tuple(arguments.peers), arguments.rounds, arguments.seconds)
            return cells.measure(plan, material, scratch, say)
        case "mqtt":
            return mqtt_path.measure(
                arguments.models.absolute(), scratch, say, rounds=arguments.rounds
            )
        case "overload":
            return overload.measure(arguments.models.absolute(), scratch, say)
        case "mixed":
            return mixed.measure(arguments.models.absolute(), scratch, say)
        case _:
            assert_never(part)


def _read(file: Path) -> Results | None:
    """What earlier runs of other parts left; a file of an older form counts for nothing."""
    try:
        return Results.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulations.serve_bench", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(DEFAULT))
    parser.add_argument("--rounds", type=int, default=5, help="of each cell; later peers have 3")
    parser.add_argument("--seconds", type=int, default=2, help="of each closed-loop run")
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models")
    parser.add_argument("--json", type=Path, default=Path("build/serve-bench.json"))
    parser.add_argument("--write", type=Path, help="a Markdown file with the block's markers")
    parser.add_argument("--plot", type=Path, help="draw the closed loop there (svg, png)")
    commands = parser.add_subparsers(dest="command")
    only_install = commands.add_parser("install", help="the peers' environments, nothing else")
    only_install.add_argument("peer", nargs="*", choices=[*PEERS, []], help="default: all")
    return parser


if __name__ == "__main__":
    sys.exit(main())
