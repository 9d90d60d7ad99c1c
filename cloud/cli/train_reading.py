"""`hybridge train list|show|get|workers`: what became of jobs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.learning_completion import artifacts, teams
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, facts, grid, moment, show, size
from cloud.cli.progress import byte_bar
from cloud.cli.train_arguments import JobName

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.learning.client.client import LearningClient
    from cloud.training.documents import Artifact, Job, JobState, Run


def list_jobs(
    *,
    state: Annotated[
        str | None,
        typer.Option(help="Only those: queued, running, stopping, done, failed, cancelled."),
    ] = None,
    team: Annotated[str | None, typer.Option(help="Only of this team.", autocompletion=teams)] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="So many at most.")] = 100,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """List the jobs, the newest first.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    wanted = _state(state)
    found = ask(learning, key_file, lambda asked: asked.jobs.all(wanted, team, limit))

    def table(out: "Console") -> None:
        from cloud.cli.train_words import recipe_text, state_text

        rows = (
            (
                one.id, recipe_text(one.spec.recipe), state_text(one), one.spec.team,
                one.spec.priority, one.worker, moment(one.submitted_at), one.submitted_by, one.why,
            )
            for one in found
        )  # fmt: skip
        columns = (
            "job", "what", "state", "team", "priority", "worker", "submitted", "by", "why",
        )  # fmt: skip
        grid(out, "Jobs", columns, rows)

    show(found, output, table)


def show_job(
    name: JobName, *, learning: Learning = None, key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show a job and its run: parameters, figures, artifacts. With -o json: `job` and `run`.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """

    async def work(asked: "LearningClient") -> "tuple[Job, Run | None]":
        job = await asked.jobs.get(name)
        return job, None if job.run is None else await asked.jobs.run(name)

    job, run = ask(learning, key_file, work, job=name)
    tree = {
        "job": job.model_dump(mode="json"), "run": run and run.model_dump(mode="json"),
    }  # fmt: skip
    show(tree, output, lambda out: _draw(out, job, run))


def get(
    name: JobName,
    artifact: Annotated[
        str,
        typer.Argument(metavar="ARTIFACT", help="As `train show` lists them.", autocompletion=artifacts),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: its own name, here.")
    ] = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Fetch a file that a job made, and check its hash. What was at FILE is replaced.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    target = Path(artifact).name if out is None else out

    async def work(asked: "LearningClient") -> "Artifact":
        from cloud.cli.suggest import question
        from shared.errors import Unknown

        run = await asked.jobs.run(name)
        known = {one.name: one for one in run.artifacts}
        if (found := known.get(artifact)) is None:
            there = question(artifact, known) or f"; there is {', '.join(known) or 'none'}"
            raise Unknown(f"{name} has no artifact {artifact[:100]!r}{there}")
        with byte_bar(artifact, found.bytes, output) as moved:
            await asked.jobs.fetch(name, found, Path(target), moved)
        return found

    found = ask(learning, key_file, work, job=name)
    tree = {
        "job": name, "artifact": found.name, "file": str(target), "bytes": found.bytes,
        "sha256": found.sha256,
    }  # fmt: skip
    line = f"{target}: {found.name} of {name}, {size(found.bytes)}"
    show(tree, output, lambda console: console.print(line, soft_wrap=True))


def workers(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List the training workers: CPUs, what they run, and what keeps it off other work.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.jobs.workers())
    rows = (
        (
            one.name, f"{one.cpus_free} of {one.cpus}", ", ".join(one.jobs), moment(one.seen_at),
            one.kept_apart_by,
        )
        for one in found
    )  # fmt: skip
    columns = ("worker", "CPUs free", "jobs", "seen", "kept apart by")
    show(found, output, lambda out: grid(out, "Workers", columns, rows))


def _state(text: str | None) -> "JobState | None":
    from cloud.cli.suggest import question
    from cloud.training.documents import JobState

    if text is None:
        return None
    known = [one.value for one in JobState]
    if text not in known:
        raise typer.BadParameter(f"--state {text[:40]!r}: there is none{question(text, known)}")
    return JobState(text)


def _draw(out: "Console", job: "Job", run: "Run | None") -> None:
    from cloud.cli.rollout_words import span
    from cloud.cli.train_words import is_over, recipe_text, state_text

    spec = job.spec
    facts(
        out, job.id,
        [
            ("what", recipe_text(spec.recipe)), ("state", state_text(job)), ("why", job.why or None),
            ("data set", spec.data_set), ("team", spec.team), ("priority", spec.priority),
            ("CPUs", spec.cpus),
            ("submitted", f"{moment(job.submitted_at)} by {job.submitted_by}"),
            ("comment", spec.comment or None),
            ("started", moment(job.started_at) or None), ("ended", moment(job.ended_at) or None),
            ("worker", job.worker or None), ("worked", span(job.worked_s) if job.worked_s else None),
            ("attempts", f"{job.attempts} of {spec.attempts_max}"),
            ("gave its place", job.preemptions or None), ("bundle", job.bundle),
            ("machine", run and run.machine), ("code", run and run.code_version),
        ],
    )  # fmt: skip
    if run is not None:
        grid(out, "Parameters", ("name", "value"), run.parameters.items())
        grid(out, "Figures", ("name", "value"), run.figures.items())
        rows = ((one.name, size(one.bytes), one.sha256[:16]) for one in run.artifacts)
        grid(out, "Artifacts", ("artifact", "size", "sha256"), rows)
    if not is_over(job):
        out.print(f"follow it: hybridge train logs {job.id} -f", soft_wrap=True)
