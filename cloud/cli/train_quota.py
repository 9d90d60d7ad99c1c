"""`hybridge train quota list|set|delete`: what each team may have at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.learning_session import CODES, KeyFile, Learning, ask
from cloud.cli.output import Format, Output, grid, show
from cloud.cli.registry_session import DryRun
from cloud.cli.train_arguments import TeamName

if TYPE_CHECKING:
    from cloud.learning.client.client import LearningClient
    from cloud.training.documents import Quota

quota = typer.Typer(no_args_is_help=True, help=f"What each team may have at once. {CODES}")


@quota.command(name="list")
def list_quotas(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List the teams' quotas.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.jobs.quotas())
    rows = ((one.team, one.cpus_max, one.queued_max, one.weight) for one in found)
    columns = ("team", "CPUs at once", "jobs queued", "weight")
    show(found, output, lambda out: grid(out, "Quotas", columns, rows))


@quota.command(name="set")
def set_quota(
    team: TeamName,
    *,
    cpus: Annotated[int | None, typer.Option(min=0, max=10_000, help="CPUs at once.")] = None,
    queued: Annotated[
        int | None, typer.Option(min=0, max=10_000, help="Jobs that wait. Default: 100.")
    ] = None,
    weight: Annotated[
        float | None, typer.Option(min=0.001, max=1000, help="Its part when others wait. Default: 1.")
    ] = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Set a team's quota; what is not given stays as it is.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """

    async def work(asked: "LearningClient") -> "Quota":
        from cloud.training.documents import Quota

        known = [one for one in await asked.jobs.quotas() if one.team == team]
        if not known and cpus is None:
            raise typer.BadParameter(f"{team} has no quota yet: give --cpus")
        given = {"cpus_max": cpus, "queued_max": queued, "weight": weight}
        before = known[0].model_dump() if known else {"team": team}
        wanted = Quota.model_validate(
            before | {name: value for name, value in given.items() if value is not None}
        )
        return wanted if dry_run else await asked.jobs.set_quota(wanted)

    from cloud.cli.registry_session import ending

    with ending():
        _check(team)
    found = ask(learning, key_file, work)
    line = (
        f"{found.team}: {found.cpus_max} CPUs, {found.queued_max} queued, weight {found.weight:g}"
    )
    if dry_run:
        tree = {"dry_run": True, "would": "set", "quota": found.model_dump(mode="json")}
        show(tree, output, lambda out: out.print(f"would set {line}"))
        return
    show(found, output, lambda out: out.print(line))


@quota.command()
def delete(
    team: TeamName, *, learning: Learning = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Take a team's quota away: it is under the default again.

    Exit codes: 0 done, 1 refused (there is none), 2 wrong usage, 3 the learning process cannot be
    reached.
    """

    async def work(asked: "LearningClient") -> None:
        from cloud.cli.suggest import question
        from shared.errors import Unknown

        names = [one.team for one in await asked.jobs.quotas()]
        if team not in names:
            raise Unknown(f"team {team} has no quota{question(team, names)}")
        if not dry_run:
            await asked.jobs.delete_quota(team)

    ask(learning, key_file, work)
    if dry_run:
        tree = {"dry_run": True, "would": "delete", "team": team}
        show(tree, output, lambda out: out.print(f"would delete the quota of {team}"))
        return
    show({"deleted": team}, output, lambda out: out.print(f"{team} has no quota of its own now"))


def _check(team: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    from cloud.training.documents import TeamName as Name
    from shared.errors import Malformed

    try:
        TypeAdapter(Name).validate_python(team)
    except ValidationError as error:
        raise Malformed(
            f"team {team[:80]!r}: small letters, digits and dashes, 64 at most"
        ) from error
