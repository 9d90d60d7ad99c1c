"""`hybridge train submit`: a job, from a file or from options."""

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cloud.cli.learning_completion import feedback_sets
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, say, show
from cloud.cli.registry_session import DryRun
from cloud.cli.train_arguments import Follow

if TYPE_CHECKING:
    from cloud.cli.learning_file import Tree
    from cloud.learning.client.client import LearningClient
    from cloud.training.documents import Job, JobSpec

_HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NAMED: Final = re.compile(r"([a-z0-9][a-z0-9-]*)(?:@([1-9]\d{0,8}))?", re.ASCII)


def submit(
    recipe: Annotated[
        Path | None,
        typer.Argument(metavar="[RECIPE.toml]", help="A job as a file.", show_default=False),
    ] = None,
    *,
    finetune: Annotated[
        str | None,
        typer.Option(metavar="MODEL@V", help="Instead of a file: fit this bundle on feedback."),
    ] = None,
    data_set: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[@N]", help="A data set of the feedback store; its newest without @N.",
            autocompletion=feedback_sets,
        ),
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Of the bundle that it makes. Default: the next patch.")
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL@V",
            help="The cloud model that thresholds are set against. Its soft labels teach in distill and prune alone.",
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="Base data that is replayed. Default: fashion-mnist.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, max=1000)] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    cpus: Annotated[int | None, typer.Option(min=1, max=256, help="Threads it may use.")] = None,
    team: Annotated[str | None, typer.Option(help="Whose quota. Default: default.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, help="9 goes first. Default: 5.")
    ] = None,
    push: Annotated[bool, typer.Option(help="Push the bundle to the registry.")] = False,
    comment: Annotated[str, typer.Option("--comment", "-m", help="Stays with the job.")] = "",
    follow: Follow = False,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Hand in a training job: a file (`[recipe]` and what the job may take), or --finetune.

    Options win over the file. The same call sent again over a bad line makes one job.

    Exit codes: 0 handed in (with -w: done), 1 refused or (with -w) failed, 2 wrong usage, 3 the
    learning process cannot be reached, 4 conflict, 130 detached with Ctrl-C: it goes on.
    """
    from cloud.cli.registry_session import ending

    if (recipe is None) == (finetune is None):
        raise typer.BadParameter("give a RECIPE.toml, or --finetune MODEL@V: one of the two")
    with ending():
        tree, where = _job(recipe, finetune)
        _over(tree, {
            "data_set": data_set, "cpus": cpus, "team": team, "priority": priority,
            "push": push or None, "comment": comment or None,
        })  # fmt: skip
        _over(_table(tree, "recipe", where), {"version": version, "teacher": teacher, "base": base})
        _over(_table(tree, "recipe", where, "fitting"), {"epochs": epochs, "seed": seed})

    once = uuid.uuid4().hex

    async def work(asked: "LearningClient") -> "tuple[JobSpec, Job | None]":
        spec = await _resolved(asked, tree, where)
        return spec, None if dry_run else await asked.jobs.submit(spec, once)

    spec, job = ask(learning, key_file, work, data_set=_name_of(tree.get("data_set")))
    if job is None:
        _say_would(spec, output)
        return
    if follow:
        from cloud.cli.train_following import follow_to_end

        say(f"handed in as {job.id}")
        follow_to_end(learning, key_file, job.id, output)
        return
    from cloud.cli.train_words import summary

    show(job, output, lambda out: out.print(summary(job), soft_wrap=True))
    say(
        f"follow it: hybridge train logs {job.id} -f; stop it: hybridge train cancel {job.id} -m WHY"
    )


def _job(recipe: Path | None, finetune: str | None) -> "tuple[Tree, str]":
    from cloud.cli.train_words import next_patch
    from shared.config import read_toml

    if recipe is not None:
        tree = read_toml(recipe)
        # a recipe alone is a job with everything else as it is by default
        return ({"recipe": tree} if "kind" in tree and "recipe" not in tree else tree), str(recipe)
    assert finetune is not None
    fitted: Tree = {
        "kind": "finetune", "student": finetune, "version": next_patch(finetune),
        "base": "fashion-mnist",
    }  # fmt: skip
    return {"recipe": fitted}, f"--finetune {finetune}"


def _table(tree: "Tree", name: str, where: str, below: str | None = None) -> "Tree":
    """The table of that name, made where there is none. Raises `Malformed`."""
    from shared.errors import Malformed

    found = tree.setdefault(name, {})
    if not isinstance(found, dict):
        raise Malformed(f"{where}: {name} is no table; write [{name}] above its members")
    return found if below is None else _table(found, below, where)


def _over(tree: "Tree", given: "dict[str, object]") -> None:
    """What was given stands in place of what was there."""
    tree |= {name: value for name, value in given.items() if value is not None}


async def _resolved(asked: "LearningClient", tree: "Tree", where: str) -> "JobSpec":
    """A data set's name as its hash. Raises `Malformed`, and as the client."""
    from cloud.cli.learning_file import checked
    from cloud.training.documents import JobSpec
    from shared.errors import Malformed

    named = tree.get("data_set")
    if isinstance(named, str) and not _HASH.fullmatch(named):
        if (found := _NAMED.fullmatch(named)) is None:
            raise Malformed(f"data_set {named[:80]!r}: write it as NAME, NAME@3 or its SHA-256")
        number = None if found[2] is None else int(found[2])
        checked(JobSpec, tree | {"data_set": "0" * 64}, where)  # before anybody is asked
        tree = tree | {"data_set": (await asked.data_sets.get(found[1], number)).sha256}
    return checked(JobSpec, tree, where)


def _name_of(found: object) -> str | None:
    return found.partition("@")[0] if isinstance(found, str) else None


def _say_would(spec: "JobSpec", output: Format) -> None:
    from cloud.cli.output import cell
    from cloud.cli.train_words import recipe_text

    tree = {"dry_run": True, "would": "submit", "job": spec.model_dump(mode="json")}
    data = "" if spec.data_set is None else f" on data set {spec.data_set[:16]}"
    line = f"would hand in {recipe_text(spec.recipe)}{data}, {spec.cpus} CPUs, team {spec.team}"
    show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))
