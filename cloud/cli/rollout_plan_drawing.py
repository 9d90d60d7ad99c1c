"""A rollout's plan as a person sees it. Pure."""

from typing import TYPE_CHECKING, Final

from cloud.cli.output import cell
from cloud.cli.rollout_drawing import stage_text, subject_text
from cloud.cli.rollout_words import percent, span
from cloud.rollouts.documents import PlannedStage, RolloutPlan

if TYPE_CHECKING:
    from rich.console import Group

_NAMED: Final = 6  # devices of a stage


def draw(plan: RolloutPlan) -> "Group":
    """Which devices move when; what each stage asks for; what to think of before."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    spec = plan.spec
    where = f"group {spec.group}" + (f" ({spec.selector})" if spec.selector else "")
    head = Text(cell(f"{subject_text(spec)} -> {where}: {plan.devices:,} devices"), "bold")
    head.append("\n")
    head.append(
        cell(
            f"seed {spec.seed}, risk {percent(spec.risk)} over all looks, "
            f"bad evidence: {spec.on_bad}"
            + (
                f", only within {', '.join(spec.window)} of each device's day"
                if spec.window
                else ""
            )
        ),
        "dim",
    )
    stages = Table("stage", "devices", "opens", "which", "asks for")
    for stage in plan.stages:
        stages.add_row(
            stage_text(stage), f"{stage.count:,}", _opens(stage), cell(_which(stage)),
            "\n".join(cell(need) for need in stage.needs),
        )  # fmt: skip
    asked = [need for stage in plan.stages for need in stage.needs]
    bounds = [one for one in spec.criteria if any(need.startswith(one) for need in asked)]
    criteria = Text("stops where it is surely violated: " + cell("; ".join(bounds) or "nothing"))
    warnings = [Text(cell(f"warning: {one}"), "yellow") for one in plan.warnings]
    return Group(head, stages, criteria, *warnings)


def _opens(stage: PlannedStage) -> str:
    when = "at once" if stage.earliest_s <= 0 else f"after {span(stage.earliest_s)}"
    return f"{when}, if a person approves" if stage.approval else when


def _which(stage: PlannedStage) -> str:
    named = ", ".join(stage.devices[:_NAMED])
    more = stage.count - min(len(stage.devices), _NAMED)
    return f"{named}{f' and {more:,} more' if named else f'{more:,}'}" if more > 0 else named
