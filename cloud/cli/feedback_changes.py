"""`hybridge feedback label|unlabel|delete`: what people say of samples, and what is to go."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli import feedback_arguments as arguments
from cloud.cli.fleet_confirm import confirm
from cloud.cli.fleet_session import Comment, Yes
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, cell, say, show, size
from cloud.cli.registry_session import DryRun, Registry, ending

if TYPE_CHECKING:
    from cloud.feedback.documents import FeedbackSample
    from cloud.learning.client.client import LearningClient


def label(
    device: arguments.DeviceName,
    sample: arguments.SampleName,
    what: Annotated[str, typer.Argument(metavar="LABEL", help="A name, or a number.")],
    *,
    comment: Annotated[str, typer.Option("--comment", "-m", help="Stays with the label.")] = "",
    labels: arguments.Labels = None,
    registry: Registry = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Say what a sample shows: it counts before the cloud's word and the edge's. Your newer word
    replaces your older one; where people differ, it is in no data set.

    Exit codes: 0 done, 1 refused (as a label that there is not), 2 wrong usage, 3 the learning
    process cannot be reached.
    """
    from cloud.cli.feedback_labels import names_from
    from cloud.cli.feedback_words import label_of, name_of

    before = ask(learning, key_file, lambda asked: asked.feedback.sample(device, sample))
    with ending():
        names = names_from(labels, registry, key_file, before.edge_model, before.edge_version)
        number = label_of(what, names)
    if dry_run:
        tree = {
            "dry_run": True,
            "would": "label",
            "device": device,
            "sample": sample,
            "label": number,
        }
        line = cell(f"would say that {device} {sample} shows {name_of(number, names)}")
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    found = ask(
        learning, key_file, lambda asked: asked.feedback.label(device, sample, number, comment)
    )  # fmt: skip
    line = f"{device} {sample} shows {name_of(number, names)}"
    if found.contradicted:
        line += "; others say something else, so it is in no data set until you agree"
    show(found, output, lambda out: out.print(cell(line), soft_wrap=True))


def unlabel(
    device: arguments.DeviceName,
    sample: arguments.SampleName,
    *,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Take back your own word on a sample.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """

    async def work(asked: "LearningClient") -> "FeedbackSample":
        if not dry_run:
            await asked.feedback.unlabel(device, sample)
        return await asked.feedback.sample(device, sample)

    found = ask(learning, key_file, work)
    if dry_run:
        tree = {"dry_run": True, "would": "unlabel", "device": device, "sample": sample}
        line = cell(f"would take your word on {device} {sample} back")
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    line = f"{device} {sample} counts as {found.label}, by {found.label_source}"
    show(found, output, lambda out: out.print(cell(line), soft_wrap=True))


def delete(
    *,
    comment: Comment,
    device: arguments.Device = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    yes: Yes = False,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete samples and their labels for good, by device, by time (--until), or both. Data sets
    that hold them stay, and are named.

    Exit codes: 0 done, 1 refused, or not confirmed, 2 wrong usage, 3 the learning process cannot be
    reached.
    """
    if device is None and until is None:
        raise typer.BadParameter("name --device, or --until TIME, or both")
    from cloud.cli.learning_file import checked
    from cloud.feedback.documents import Deletion

    wanted = arguments.Wanted(device=device, since=since, until=until)
    with ending():
        query = wanted.query((), time.time())
        tree: dict[str, object] = {
            "device": query.device, "since": query.since, "until": query.until, "comment": comment,
        }  # fmt: skip
        deletion = checked(Deletion, tree, "options")

    async def counted(asked: "LearningClient") -> tuple[int, int] | None:
        """None: whoever may delete samples need not be one who may look at them."""
        from shared.errors import Forbidden

        rows = bytes_ = 0
        try:
            async for page in asked.feedback.pages(query):
                rows, bytes_ = rows + len(page), bytes_ + sum(one.bytes for one in page)
        except Forbidden:
            return None
        return rows, bytes_

    if dry_run or not yes:
        count = ask(learning, key_file, counted)
        what = "such samples (this key may not look how many)"
        if count is not None:
            what = f"{count[0]:,} samples ({size(count[1])})"
        if dry_run:
            rows, bytes_ = count or (None, None)
            would = {"dry_run": True, "would": "delete", "rows": rows, "bytes": bytes_}
            show(would, output, lambda out: out.print(f"would delete {what}"))
            return
        confirm(f"Delete {what} for good?", yes=yes)
    found = ask(learning, key_file, lambda asked: asked.feedback.delete(deletion))
    line = f"deleted {found.rows:,} samples, {size(found.bytes)}"
    show(found, output, lambda out: out.print(line))
    if found.data_sets:
        say(f"data sets that hold some of them: {', '.join(found.data_sets)}")
