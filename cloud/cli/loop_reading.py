"""`hybridge loop list|show|cycles`: where loops stand."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.loop_arguments import ModelName
from cloud.cli.output import Format, Output, facts, grid, moment, show
from cloud.cli.registry_session import Code

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.learning.documents import Loop


def status(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """Show the learning process in figures: samples, jobs, workers, loops, and who is waited for.

    Exit codes: 0 done, 1 a check of training against serving failed, or refused, 2 wrong usage, 3 the
    learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.state())
    rows: list[tuple[str, object]] = [
        ("feedback samples", found.feedback_rows), ("data sets", found.data_sets),
        *((f"jobs {state}", count) for state, count in found.jobs.items() if count),
        ("workers", found.workers), ("loops", found.loops), ("cycles", found.cycles_running),
        ("cycles that ask a person", found.asking), ("checks that failed", found.checks_failed),
    ]  # fmt: skip
    show(found, output, lambda out: facts(out, found.name, rows))
    if found.checks_failed:
        raise typer.Exit(Code.REFUSED)


def list_loops(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List the loops: what each does now, and what it waits for.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.loops.all())

    def table(out: "Console") -> None:
        from cloud.cli.loop_drawing import loop_line, phase_text, triggers_text, waits_for

        rows = (
            (
                one.settings.model, loop_line(one), one.settings.group, triggers_text(one),
                "" if one.cycle is None else waits_for(one.cycle),
                "" if one.last is None
                else f"{phase_text(one.last)}, {moment(one.last.ended_at)}",
            )
            for one in found
        )  # fmt: skip
        columns = ("model", "now", "group", "triggers", "waits for", "last cycle")
        grid(out, "Loops", columns, rows)

    show(found, output, table)


def show_loop(
    name: ModelName, *, learning: Learning = None, key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show a loop: its settings, and its cycle arrow by arrow.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.loops.get(name), loop=name)
    show(found, output, lambda out: _draw(out, found))


def cycles(
    name: ModelName,
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 20,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List a loop's cycles, the newest first: what began each, how far it came, why it ended.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.loops.cycles(name, limit), loop=name)

    def table(out: "Console") -> None:
        from cloud.cli.loop_drawing import phase_text

        rows = (
            (
                one.id, one.trigger, phase_text(one), moment(one.begun_at), moment(one.ended_at),
                one.job, one.version, one.rollout, one.why,
            )
            for one in found
        )  # fmt: skip
        columns = (
            "cycle", "began by", "phase", "begun", "ended", "job", "version", "rollout", "why",
        )  # fmt: skip
        grid(out, f"Cycles of {name}", columns, rows)

    show(found, output, table)


def history(
    name: Annotated[str, typer.Argument(metavar="CYCLE", help="Its id, as `cycles` lists it.")],
    *,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what happened to a cycle, the oldest first: who said go, what a gate found.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.loops.log(name))
    rows = ((moment(one.at), one.words) for one in found)
    show(found, output, lambda out: grid(out, f"History of {name}", ("at", "what"), rows))


def _draw(out: "Console", loop: "Loop") -> None:
    from cloud.cli.loop_drawing import draw, loop_line, marks_for, triggers_text
    from cloud.cli.rollout_words import percent, span

    settings, triggers = loop.settings, loop.settings.triggers
    asks = ", ".join(str(one).replace("_", " ") for one in sorted(settings.asks))
    facts(
        out, settings.model,
        [
            ("now", loop_line(loop)), ("teacher", settings.teacher), ("group", settings.group),
            ("triggers", triggers_text(loop)), ("samples at least", triggers.samples_min),
            ("asks a person before", asks or "nothing"),
            ("teacher gate", f"{settings.teacher_gate.labelled_min} labelled by people"),
            ("gain at least", percent(settings.acceptance.gain_min)),
            ("clean loss at most", percent(settings.acceptance.clean_loss_max)),
            ("rollout", settings.rollout_stages), ("watched for", span(settings.watch_s)),
            ("nothing triggers before", moment(loop.next_at) or None),
            ("revision", loop.revision),
        ],
    )  # fmt: skip
    shown = loop.cycle or loop.last
    if shown is not None:
        out.print(draw(shown, settings.asks, time.time(), marks=marks_for(out.encoding)))
    else:
        out.print(f"no cycle yet; begin one: hybridge loop begin {settings.model} -m WHY")
