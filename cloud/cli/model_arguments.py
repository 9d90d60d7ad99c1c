"""What the registry's `hybridge model` commands take, and how they show a version."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.completion import models, versions

if TYPE_CHECKING:
    from cloud.registry.documents import Evaluation, ModelVersion

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Its name.", autocompletion=models)]
VersionName = Annotated[
    str, typer.Argument(metavar="VERSION", help="As 1.4.0.", autocompletion=versions)
]
Before = Annotated[
    str, typer.Argument(metavar="V1", help="The version before.", autocompletion=versions)
]
After = Annotated[
    str, typer.Argument(metavar="V2", help="The version after.", autocompletion=versions)
]
VersionIfAny = Annotated[
    str | None, typer.Argument(metavar="[VERSION]", help="As 1.4.0.", autocompletion=versions)
]


def title(version: "ModelVersion") -> str:
    return f"{version.model} {version.version}"


def status_line(version: "ModelVersion") -> str:
    """What became of it, in one line."""
    why = f" ({version.why})" if version.why else ""
    return f"{title(version)} is {version.state}{why}"


def metrics_text(metrics: Mapping[str, object]) -> str:
    """As `accuracy 0.9123, f1 0.9`."""
    from cloud.cli.output import cell

    return ", ".join(f"{name} {cell(value)}" for name, value in metrics.items())


def evaluation_text(found: "Evaluation") -> str:
    """Its state, why, and the figures of each variant."""
    lines = [f"evaluation {found.id} of {found.model} {found.version}: {found.state}"]
    if found.why:
        lines.append(f"  {found.why}")
    lines += [f"  {key}: {metrics_text(metrics)}" for key, metrics in found.metrics.items()]
    return "\n".join(lines)
