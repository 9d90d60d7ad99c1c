"""What a data set is to take, from options and a file."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.completion import models
from cloud.cli.feedback_arguments import From, Reason
from cloud.cli.fleet_completion import devices

if TYPE_CHECKING:
    from cloud.feedback.documents import DataSetSpec

Model = Annotated[
    str | None, typer.Option(help="The edge model whose samples are taken.", autocompletion=models)
]
SpecFile = Annotated[
    Path | None, typer.Option("--spec", metavar="FILE.toml", help="As options; those win over it.")
]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Received from then on: 2026-05-04, or 2h ago.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Received before.")]
Versions = Annotated[
    list[str] | None, typer.Option(help="Of the edge model; may repeat. Default: all.")
]
Devices = Annotated[
    list[str] | None, typer.Option(help="May repeat. Default: all.", autocompletion=devices)
]
Sites = Annotated[list[str] | None, typer.Option(help="May repeat. Default: all.")]
Reasons = Annotated[
    list[Reason] | None, typer.Option(help="Why they came; may repeat. Default: all.")
]
SourceMin = Annotated[
    From | None, typer.Option("--source-min", help="Lower labels are not used. Default: cloud.")
]
CloudModel = Annotated[
    str | None,
    typer.Option(help="The cloud model that answered. Default: any.", autocompletion=models),
]
Confidence = Annotated[
    str | None, typer.Option("--confidence-min", metavar="SHARE", help="Of the cloud's labels.")
]
Rows = Annotated[int | None, typer.Option(min=1, help="At most. Default: 20000.")]
HalfLife = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="A sample so much older counts half. Default: age is nothing."
    ),
]
Holdout = Annotated[
    str | None, typer.Option(metavar="SHARE", help="Kept to measure on. Default: 10%.")
]
Seed = Annotated[int | None, typer.Option(min=0)]


def spec_from(
    file: Path | None,
    model: str | None,
    since: str | None,
    until: str | None,
    versions: list[str] | None,
    devices: list[str] | None,
    sites: list[str] | None,
    reasons: list[Reason] | None,
    source_min: From | None,
    cloud_model: str | None,
    confidence_min: str | None,
    rows: int | None,
    half_life: str | None,
    holdout: str | None,
    seed: int | None,
) -> "DataSetSpec":
    """What is wrong ends the command, with its words."""
    from cloud.cli.feedback_words import moment_of
    from cloud.cli.learning_file import checked
    from cloud.cli.registry_session import ending
    from cloud.cli.rollout_words import seconds, share
    from cloud.feedback.documents import DataSetSpec
    from shared.config import read_toml

    with ending():
        tree = {} if file is None else read_toml(file)
        now = time.time()
        given: dict[str, object] = {
            "model": model,
            "since": None if since is None else moment_of(since, "--since", now),
            "until": None if until is None else moment_of(until, "--until", now),
            "versions": versions or None, "devices": devices or None, "sites": sites or None,
            "reasons": [str(one) for one in reasons] if reasons else None,
            "source_min": source_min and str(source_min),
            "cloud_model": cloud_model,
            "cloud_confidence_min":
                None if confidence_min is None else share(confidence_min, "--confidence-min"),
            "rows_max": rows,
            "half_life_s": None if half_life is None else seconds(half_life, "--half-life"),
            "holdout_share": None if holdout is None else share(holdout, "--holdout"),
            "seed": seed,
        }  # fmt: skip
        tree |= {name: value for name, value in given.items() if value is not None}
        if "model" not in tree:
            raise typer.BadParameter("name the edge model: --model NAME, or a --spec with one")
        return checked(DataSetSpec, tree, "options" if file is None else str(file))
