"""`hybridge rollout plan|start`: what would happen, and letting it happen."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cloud.cli import rollout_arguments as arguments
from cloud.cli.fleet_confirm import confirm
from cloud.cli.fleet_session import Fleet, KeyFile, Yes, ask
from cloud.cli.output import Format, Output, cell, say, show
from cloud.cli.registry_session import Code, DryRun

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.fleet.client.client import FleetClient
    from cloud.rollouts.documents import RolloutPlan, RolloutView


def plan(
    name: arguments.Name = None, version: arguments.Version = None, *,
    profile: arguments.Profile = None, group: arguments.Group = "all",
    selector: arguments.Selector = "", canary: arguments.Canary = None,
    waves: arguments.Waves = None, exponential: arguments.Exponential = None,
    shadow: arguments.Shadow = None, shadow_samples: arguments.ShadowSamples = None,
    wave_time: arguments.WaveTime = None, watch: arguments.Watch = None,
    samples: arguments.Samples = None, window: arguments.Window = None,
    criterion: arguments.Criterion = None, only_criteria: arguments.OnlyCriteria = False,
    approve_before: arguments.ApproveBefore = None, seed: arguments.Seed = None,
    risk: arguments.Risk = None, on_bad: arguments.OnBad = None,
    manifest: arguments.Manifest = None,
    fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show which devices would move when, and what evidence each stage asks for. Makes nothing.

    Exit codes: 0 done, 1 refused (as a criterion that does not parse), 2 wrong usage, 3 the fleet
    cannot be reached, 4 there is no device for it.
    """
    wanted = arguments.Wanted(
        name, version, profile, group, selector, canary, waves, exponential, shadow, shadow_samples,
        wave_time, watch, samples, window, criterion, only_criteria, approve_before, seed, risk,
        on_bad, manifest,
    )  # fmt: skip
    request = _request(wanted)
    found = ask(fleet, key_file, lambda asked: asked.rollouts.plan(request), group=group)
    show(found, output, lambda out: _draw(out, found))


def start(
    name: arguments.Name = None, version: arguments.Version = None, *,
    profile: arguments.Profile = None, group: arguments.Group = "all",
    selector: arguments.Selector = "", canary: arguments.Canary = None,
    waves: arguments.Waves = None, exponential: arguments.Exponential = None,
    shadow: arguments.Shadow = None, shadow_samples: arguments.ShadowSamples = None,
    wave_time: arguments.WaveTime = None, watch: arguments.Watch = None,
    samples: arguments.Samples = None, window: arguments.Window = None,
    criterion: arguments.Criterion = None, only_criteria: arguments.OnlyCriteria = False,
    approve_before: arguments.ApproveBefore = None, seed: arguments.Seed = None,
    risk: arguments.Risk = None, on_bad: arguments.OnBad = None,
    manifest: arguments.Manifest = None, comment: arguments.Comment = "",
    follow: arguments.Follow = False, yes: Yes = False, dry_run: DryRun = False,
    fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show the plan, ask, and start a rollout; with -w watch it until it is over.

    MODEL VERSION, or --profile NAME VERSION, or the id of a draft alone. Its devices and their
    order are fixed from here on.

    Exit codes: 0 started (with -w: succeeded), 1 refused, not confirmed, or (with -w) aborted or
    rolled back, 2 wrong usage, 3 the fleet cannot be reached, 4 another one runs for this model and
    group, or there is no device for it, 130 detached with Ctrl-C: it goes on.
    """
    if profile is None and name is not None and version is None:
        _start_draft(
            name, fleet, key_file, comment, output, follow=follow, yes=yes, dry_run=dry_run
        )
        return
    wanted = arguments.Wanted(
        name, version, profile, group, selector, canary, waves, exponential, shadow, shadow_samples,
        wave_time, watch, samples, window, criterion, only_criteria, approve_before, seed, risk,
        on_bad, manifest,
    )  # fmt: skip
    request = _request(wanted)
    if dry_run or not yes or output is Format.TABLE:
        planned = ask(fleet, key_file, lambda asked: asked.rollouts.plan(request), group=group)
        if dry_run:
            show(planned, output, lambda out: _draw(out, planned))
            return
        _show_before(planned, output)
        confirm(f"Start it for {planned.devices:,} devices?", yes=yes)

    async def work(asked: "FleetClient") -> "RolloutView":
        draft = await asked.rollouts.create(request)
        return await asked.rollouts.tell("start", draft.id, comment, draft.revision)

    _end(ask(fleet, key_file, work, group=group), fleet, key_file, output, follow=follow)


def _start_draft(
    name: str, fleet: list[str] | None, key_file: Path | None, comment: str, output: Format, *,
    follow: bool, yes: bool, dry_run: bool,
) -> None:  # fmt: skip
    seen = ask(fleet, key_file, lambda asked: asked.rollouts.get(name), rollout=name)
    if dry_run:
        from cloud.cli.rollout_drawing import state_text

        line = cell(f"would start {seen.id}, which is {state_text(seen)}")
        tree = {"dry_run": True, "would": "start", "rollout": seen.id, "status": str(seen.status)}
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    devices = sum(seen.phases.values())
    confirm(f"Start {seen.id} for {devices:,} devices?", yes=yes)
    found = ask(
        fleet, key_file, lambda asked: asked.rollouts.tell("start", name, comment, seen.revision),
        rollout=name,
    )  # fmt: skip
    _end(found, fleet, key_file, output, follow=follow)


def _request(wanted: arguments.Wanted) -> dict[str, object]:
    from cloud.cli.registry_session import ending

    with ending():
        return wanted.request()


def _end(
    found: "RolloutView", fleet: list[str] | None, key_file: Path | None, output: Format, *,
    follow: bool,
) -> None:  # fmt: skip
    from cloud.cli.rollout_drawing import summary
    from cloud.rollouts.documents import RolloutStatus

    if not follow:
        show(found, output, lambda out: out.print(summary(found), soft_wrap=True))
        say(f"watch it: hybridge rollout status {found.id} -w")
        return
    from cloud.cli.rollout_watching import watch

    ended = watch(fleet, key_file, found.id, output)
    if ended.status is not RolloutStatus.SUCCEEDED:
        raise typer.Exit(Code.REFUSED)


def _show_before(planned: "RolloutPlan", output: Format) -> None:
    """Before the question: stdout is the result's, so where that is for programs the plan is not."""
    if output is Format.TABLE:
        show(planned, output, lambda out: _draw(out, planned))
    else:
        say(f"the plan: {planned.devices:,} devices in {len(planned.stages)} stages")
        for warning in planned.warnings:
            say(f"warning: {warning}")


def _draw(out: "Console", planned: "RolloutPlan") -> None:
    from cloud.cli.rollout_plan_drawing import draw

    out.print(draw(planned))
