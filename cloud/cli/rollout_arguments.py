"""What `hybridge rollout` commands take."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

import typer

from cloud.cli.completion import models, versions
from cloud.cli.fleet_completion import groups, profiles, rollouts


class Kind(StrEnum):
    """Of a stage."""

    SHADOW = "shadow"
    CANARY = "canary"
    WAVE = "wave"
    WATCH = "watch"


Id = Annotated[str, typer.Argument(metavar="ROLLOUT", help="Its id.", autocompletion=rollouts)]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL|VERSION",
        help="The model; with --profile, the profile's version.",
        autocompletion=models,
        show_default=False,
    ),
]
Version = Annotated[
    str | None,
    typer.Argument(
        metavar="[VERSION]", help="A released one, as 1.4.0.", autocompletion=versions,
        show_default=False,
    ),
]  # fmt: skip
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Roll out a device profile instead.", autocompletion=profiles
    ),
]
Group = Annotated[str, typer.Option("--group", "-g", help="Whose devices.", autocompletion=groups)]
Selector = Annotated[
    str, typer.Option("--selector", "-l", help="Narrows the group, as 'site=lyon,hw=jetson'.")
]
Canary = Annotated[str | None, typer.Option(metavar="SHARE", help="As 5%. Default: 5%.")]
Waves = Annotated[
    str | None,
    typer.Option(metavar="SHARES", help="Cumulative, as 25%,50%,100%, which is the default."),
]
Exponential = Annotated[
    float | None,
    typer.Option(metavar="FACTOR", help="Waves from the canary on, each so many times the last."),
]
Shadow = Annotated[
    str | None, typer.Option(metavar="TIME", help="At most so long in shadow; 0: not. Default: 1h.")
]
ShadowSamples = Annotated[
    int | None, typer.Option(min=0, help="In shadow, before the canary may begin. Default: 2000.")
]
WaveTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="A stage takes at least so long. Default: 1h.")
]
Watch = Annotated[
    str | None, typer.Option(metavar="TIME", help="After the last wave. Default: 48h.")
]
Samples = Annotated[
    int | None, typer.Option(min=1, help="Live ones in a stage before it is good. Default: 500.")
]
Window = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HH:MM-HH:MM", help="Maintenance hours in each device's time zone; may repeat."
    ),
]
Criterion = Annotated[
    list[str] | None,
    typer.Option(
        help="As 'disagreement <= control + 0.02', in place of the default of that measure; may "
        "repeat."
    ),
]
OnlyCriteria = Annotated[
    bool, typer.Option("--only-criteria", help="None of the default criteria.")
]
ApproveBefore = Annotated[
    list[Kind] | None,
    typer.Option(help="A person must approve before it; may repeat."),
]
Seed = Annotated[str | None, typer.Option(help="Places the devices. Default: VERSION-MODEL.")]
Risk = Annotated[
    float | None,
    typer.Option(help="Probability that noise stops a good version. Default: 0.01."),
]
OnBad = Annotated[
    Literal["undo", "pause"] | None,
    typer.Option(help="What bad evidence does by itself. Default: undo."),
]
Manifest = Annotated[
    str | None,
    typer.Option(metavar="SHA256", help="Of the manifest, where the fleet has no registry."),
]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why; stays in the log.")]
Follow = Annotated[
    bool, typer.Option("--follow", "-w", help="Watch it until it is over; Ctrl-C detaches.")
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of `plan` and `start`, as they were given."""

    name: str | None
    version: str | None
    profile: str | None
    group: str
    selector: str
    canary: str | None
    waves: str | None
    exponential: float | None
    shadow: str | None
    shadow_samples: int | None
    wave_time: str | None
    watch: str | None
    samples: int | None
    window: list[str] | None
    criterion: list[str] | None
    only_criteria: bool
    approve_before: list[Kind] | None
    seed: str | None
    risk: float | None
    on_bad: Literal["undo", "pause"] | None
    manifest: str | None

    def request(self) -> dict[str, object]:
        """As the fleet takes it. Raises `typer.BadParameter` or `Malformed`."""
        from cloud.cli.rollout_spec import criteria_from, request, seed_of

        if self.only_criteria and not self.criterion:
            raise typer.BadParameter("--only-criteria: name one at least with --criterion")
        subject = self._subject()
        return request(
            {
                "subject": subject, "group": self.group, "selector": self.selector or None,
                "seed": self.seed or seed_of(subject), **self._stages(),
                "samples_min": self.samples, "shadow_samples": self.shadow_samples,
                "window": tuple(self.window) if self.window else None,
                "approvals": tuple(map(str, self.approve_before)) if self.approve_before else None,
                "criteria": criteria_from(self.criterion or (), only=self.only_criteria),
                "risk": self.risk, "on_bad": self.on_bad,
            }
        )  # fmt: skip

    def _subject(self) -> Mapping[str, object]:
        from cloud.cli.rollout_spec import model_subject, profile_subject

        if self.profile is None:
            if self.name is None or self.version is None:
                raise typer.BadParameter("name MODEL and VERSION, or --profile NAME and VERSION")
            return model_subject(self.name, self.version, self.manifest)
        if self.name is None or self.version is not None or self.manifest is not None:
            raise typer.BadParameter("with --profile NAME the one argument is its version, as 3")
        if not (self.name.isascii() and self.name.isdigit()):
            raise typer.BadParameter(
                f"{self.name[:40]!r} is no version of a profile: want a number"
            )
        return profile_subject(self.profile, int(self.name))

    def _stages(self) -> dict[str, object]:
        from cloud.cli.rollout_spec import waves_from
        from cloud.cli.rollout_words import seconds, share
        from cloud.rollouts.documents import RolloutSpec

        if self.waves is not None and self.exponential is not None:
            raise typer.BadParameter("--waves and --exponential: one at a time")
        canary = None if self.canary is None else share(self.canary, "--canary")
        waves: tuple[float, ...] | None = None
        if self.waves is not None:
            waves = tuple(share(one, "--waves") for one in self.waves.split(","))
        elif self.exponential is not None:
            default = RolloutSpec.model_fields["canary"].default
            waves = waves_from(default if canary is None else canary, self.exponential)

        def given(text: str | None, what: str) -> float | None:
            return None if text is None else seconds(text, what)

        return {
            "canary": canary, "waves": waves, "shadow_s": given(self.shadow, "--shadow"),
            "wave_s": given(self.wave_time, "--wave-time"), "watch_s": given(self.watch, "--watch"),
        }  # fmt: skip
