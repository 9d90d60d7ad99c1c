"""What `hybridge feedback` commands take, and the query that it says."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.completion import models, versions
from cloud.cli.fleet_completion import devices

if TYPE_CHECKING:
    from cloud.feedback.documents import SampleQuery


class Reason(StrEnum):
    """Why a sample came."""

    ESCALATED = "escalated"
    AUDIT = "audit"
    NOVEL = "novel"


class From(StrEnum):
    """Whose word counts."""

    PERSON = "person"
    CLOUD = "cloud"
    EDGE = "edge"


DeviceName = Annotated[
    str, typer.Argument(metavar="DEVICE", help="Its id.", autocompletion=devices)
]
SampleName = Annotated[
    str, typer.Argument(metavar="SAMPLE", help="Its id, as `feedback list` shows it.")
]
Model = Annotated[str | None, typer.Option(help="Only of this edge model.", autocompletion=models)]
ModelVersion = Annotated[
    str | None, typer.Option("--version", help="Only of this version.", autocompletion=versions)
]
CloudModel = Annotated[
    str | None,
    typer.Option(help="Only those that this cloud model answered.", autocompletion=models),
]
Device = Annotated[str | None, typer.Option(help="Only of this device.", autocompletion=devices)]
Site = Annotated[str | None, typer.Option(help="Only of this site.")]
WhyCame = Annotated[Reason | None, typer.Option("--reason", help="Only those that came for it.")]
LabelNamed = Annotated[
    str | None, typer.Option("--label", help="Only where this counts: a name or a number.")
]
CountsFrom = Annotated[From | None, typer.Option("--source", help="Only where its word counts.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Received from then on: 2026-05-04, or 2h ago.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Received before.")]
Unsure = Annotated[
    str | None, typer.Option(metavar="SHARE", help="The cloud was less sure than this, as 0.6.")
]
Disputed = Annotated[bool, typer.Option("--disputed", help="Edge and cloud, or people, differ.")]
Contradicted = Annotated[bool, typer.Option("--contradicted", help="People differ.")]
Unlabelled = Annotated[bool, typer.Option("--unlabelled", help="No person has said what it shows.")]
Holdout = Annotated[
    bool, typer.Option("--holdout", help="Only what data sets keep from training, to measure on.")
]
HoldoutShare = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Of those data sets, where theirs is not the default 10%."),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        help="The labels' names, from 0. Default: as the registry has them.",
    ),
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a query, as they were given."""

    model: str | None = None
    version: str | None = None
    device: str | None = None
    site: str | None = None
    reason: Reason | None = None
    label: str | None = None
    source: From | None = None
    since: str | None = None
    until: str | None = None
    unsure: str | None = None
    disputed: bool = False
    contradicted: bool = False
    unlabelled: bool = False
    holdout: bool = False
    holdout_share: str | None = None
    cloud_model: str | None = None

    def query(self, names: tuple[str, ...], now: float) -> "SampleQuery":
        """Raises `Malformed`."""
        from cloud.cli.feedback_words import label_of, moment_of
        from cloud.cli.learning_file import checked
        from cloud.cli.rollout_words import share
        from cloud.feedback.documents import SampleQuery

        tree: dict[str, object] = {
            "model": self.model, "version": self.version, "cloud_model": self.cloud_model,
            "device": self.device, "site": self.site, "reason": self.reason and str(self.reason),
            "label": None if self.label is None else label_of(self.label, names),
            "source": self.source and str(self.source),
            "since": None if self.since is None else moment_of(self.since, "--since", now),
            "until": None if self.until is None else moment_of(self.until, "--until", now),
            "unsure": None if self.unsure is None else share(self.unsure, "--unsure"),
            "disputed": self.disputed, "contradicted": self.contradicted,
            "unlabelled": self.unlabelled, "holdout": self._held(),
        }  # fmt: skip
        return checked(SampleQuery, tree, "options")

    def _held(self) -> float | None:
        """The share that is kept from training, where only that is asked for."""
        from cloud.cli.rollout_words import share
        from cloud.feedback.documents import DataSetSpec

        if self.holdout_share is not None:
            return share(self.holdout_share, "--holdout-share")
        default: float = DataSetSpec.model_fields["holdout_share"].default
        return default if self.holdout else None
