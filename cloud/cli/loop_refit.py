"""`hybridge loop refit`: the escalation threshold anew, without a new model."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.loop_arguments import ModelName
from cloud.cli.output import Format, Output, facts, say, show

if TYPE_CHECKING:
    from cloud.learning.client.client import LearningClient
    from cloud.learning.documents import Refit


def refit(
    name: ModelName,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Send it to the loop's group.")] = False,
    comment: Annotated[str, typer.Option("--comment", "-m", help="Why; needed with --apply.")] = "",
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what the threshold would be, fitted on fresh audits and escalations; with --apply, set it
    as a device profile.

    Exit codes: 0 done, 1 refused (as too few samples), 2 wrong usage, 3 the learning process cannot
    be reached, 4 somebody changed it at the same time.
    """
    if apply and not comment:
        raise typer.BadParameter("--apply: say why with --comment")

    async def work(asked: "LearningClient") -> "Refit":
        return await (asked.loops.apply_refit(name, comment) if apply else asked.loops.refit(name))

    found = ask(learning, key_file, work, loop=name)
    from cloud.cli.rollout_words import percent

    rows = [
        ("threshold", f"{found.before:.4g} -> {found.confidence_min:.4g}"),
        ("would escalate", percent(round(found.escalated_share, 4))),
        ("accuracy lost at most", f"{percent(found.epsilon)}, but for {percent(found.delta)}"),
        ("samples", found.samples), ("words", found.words),
    ]  # fmt: skip
    title = f"{found.model} {found.version}: {'set' if apply else 'would be'}"
    show(found, output, lambda out: facts(out, title, rows))
    if not apply:
        say(f"set it: hybridge loop refit {name} --apply -m WHY")
