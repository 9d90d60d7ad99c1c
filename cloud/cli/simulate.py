"""`hybridge simulate`: a fleet on virtual time, what a recorded one would have been, and the odds."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.output import Format, Output
from simulations.fleet.names import NAMES

if TYPE_CHECKING:
    from simulations.fleet.run import Outcome

simulate = typer.Typer(
    no_args_is_help=True,
    help="Simulate a whole fleet on virtual time: the real rollout, devices and faults (docs/simulation.md).",
)
Seed = Annotated[int, typer.Option(min=0, max=2**63, help="The same seed is the same run.")]
Devices = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many.")]


def _one(name: str) -> Callable[..., None]:
    def run(
        seed: Seed = 1,
        devices: Devices = 1000,
        trace: Annotated[
            Path | None,
            typer.Option(
                metavar="FILE", help="Every event as JSON lines; zstd where it ends in .zst."
            ),
        ] = None,
        plot: Annotated[
            Path | None, typer.Option(metavar="FILE.svg", help="Stages, devices, evidence.")
        ] = None,
        output: Output = Format.TABLE,
    ) -> None:
        from simulations.fleet.run import simulate as simulate_one
        from simulations.fleet.scenarios import scenario

        ran = simulate_one(scenario(name), seed, devices, trace=trace)
        if plot is not None:
            from simulations.fleet.plot import draw

            draw(ran.samples, f"{name}, seed {seed}, {devices:,} devices", plot)
        _show(ran.outcome, output)

    run.__doc__ = NAMES[name]
    return run


for _name in NAMES:
    simulate.command(_name)(_one(_name))


def _show(outcome: "Outcome", output: Format) -> None:
    from dataclasses import asdict

    from cloud.cli.output import print_tree
    from simulations.fleet.run import words

    if output is Format.TABLE:
        typer.echo("\n".join(words(outcome)))
    else:
        print_tree(asdict(outcome), output)


@simulate.command()
def many(
    name: Annotated[str, typer.Argument(help="A scenario.")] = "storm",
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Seeds.")] = 2000,
    processes: Annotated[int, typer.Option(min=1, max=256, help="At once.")] = 2,
    output: Output = Format.TABLE,
) -> None:
    """Run many seeds of small fleets of 20 to 60 devices with every checker; exit code 1 where an
    invariant broke, with the seeds.
    """
    from simulations.fleet.many import run_many

    if not run_many(name, first, count, processes, as_json=output is not Format.TABLE):
        raise typer.Exit(1)


@simulate.command()
def odds(
    runs: Annotated[int, typer.Option(min=10, max=100_000, help="Of each kind of version.")] = 1000,
    devices: Devices = 200,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    processes: Annotated[int, typer.Option(min=1, max=256, help="At once.")] = 2,
    kinds: Annotated[
        str,
        typer.Option(metavar="A,B", help="Scenarios; empty: those that docs/simulation.md states."),
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """How often a bad version is stopped within the canary, and a good one at all, with 95% intervals."""
    from simulations.fleet.odds import print_odds

    print_odds(kinds, runs, devices, first, processes, as_json=output is not Format.TABLE)


@simulate.command()
def replay(
    log: Annotated[
        Path, typer.Argument(metavar="TRACE", help="A trace, or telemetry as JSON lines.")
    ],
    threshold: Annotated[
        list[float] | None,
        typer.Option(min=0, max=1, help="Escalate below this confidence instead. Repeatable."),
    ] = None,
    criterion: Annotated[
        list[str] | None, typer.Option(help="Gate by these instead. Repeatable.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="As canary=0.1, risk=0.05, waves=0.5,1. Repeatable."
        ),
    ] = None,
    cloud_ms: Annotated[
        float, typer.Option(min=0, max=1e6, help="Of a cloud answer, on its way and back.")
    ] = 60.0,
    output: Output = Format.TABLE,
) -> None:
    """What a recorded fleet would have come to with another threshold, criteria or policy."""
    from simulations.fleet.what_if.compare import print_replay

    print_replay(
        log, tuple(threshold or ()), tuple(criterion or ()), tuple(policy or ()), cloud_ms,
        as_json=output is not Format.TABLE,
    )  # fmt: skip
