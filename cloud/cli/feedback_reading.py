"""`hybridge feedback status|list|show`: what devices sent back."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli import feedback_arguments as arguments
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, facts, grid, moment, say, show, size
from cloud.cli.registry_session import Registry, ending

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.cli.feedback_labels import Names
    from cloud.feedback.documents import FeedbackSample

_ID_WIDTH = 36
"""Of a sample's id, which is to be pasted: whole in the narrowest terminal."""
_WIDE_COLUMNS = 130
_WIDE_ONLY = frozenset({"site", "received", "reason", "version"})
"""What a narrower one has no room for; `feedback show` has it."""


def status(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """Show the feedback store in figures.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.feedback.state())
    rows: list[tuple[str, object]] = [
        ("samples", found.rows), ("size", size(found.bytes)),
        ("oldest", moment(found.oldest_at) or None), ("newest", moment(found.newest_at) or None),
        *((f"came as {reason}", count) for reason, count in sorted(found.per_reason.items())),
        ("labelled by people", found.labelled), ("people differ", found.contradicted),
        ("data sets", found.data_sets),
    ]  # fmt: skip
    show(found, output, lambda out: facts(out, "Feedback store", rows))


def list_samples(
    *,
    model: arguments.Model = None,
    version: arguments.ModelVersion = None,
    cloud_model: arguments.CloudModel = None,
    device: arguments.Device = None,
    site: arguments.Site = None,
    reason: arguments.WhyCame = None,
    label: arguments.LabelNamed = None,
    source: arguments.CountsFrom = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    unsure: arguments.Unsure = None,
    disputed: arguments.Disputed = False,
    contradicted: arguments.Contradicted = False,
    unlabelled: arguments.Unlabelled = False,
    holdout: arguments.Holdout = False,
    holdout_share: arguments.HoldoutShare = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="So many at most.")] = 50,
    labels: arguments.Labels = None,
    registry: Registry = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List samples, the newest first; every condition must hold. --unsure 0.6 --unlabelled is what a
    person should look at.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    from cloud.cli.feedback_labels import names_from

    wanted = arguments.Wanted(
        model, version, device, site, reason, label, source, since, until, unsure, disputed,
        contradicted, unlabelled, holdout, holdout_share, cloud_model,
    )  # fmt: skip
    with ending():
        names: Names = ()
        if labels is not None or label is not None:
            names = names_from(labels, registry, key_file, model, version)
        query = wanted.query(names, time.time())
    # one more than is shown: whether there are more
    found = ask(learning, key_file, lambda asked: asked.feedback.samples(query, limit + 1))
    shown, is_cut = found[:limit], len(found) > limit
    if not names and shown and output is Format.TABLE:
        names = names_from(None, registry, key_file, shown[0].edge_model, shown[0].edge_version)
    show(shown, output, lambda out: _table(out, shown, names))
    if is_cut:
        say(f"there are more: --limit {limit * 10}, or narrow them")


def show_sample(
    device: arguments.DeviceName,
    sample: arguments.SampleName,
    *,
    labels: arguments.Labels = None,
    registry: Registry = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a sample: who said what of it, when, how sure.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    from cloud.cli.feedback_labels import names_from

    found = ask(learning, key_file, lambda asked: asked.feedback.sample(device, sample))
    names: Names = ()
    with ending():
        if labels is not None or output is Format.TABLE:
            names = names_from(labels, registry, key_file, found.edge_model, found.edge_version)
    show(found, output, lambda out: _draw(out, found, names))


def _table(out: "Console", samples: "list[FeedbackSample]", names: "Names") -> None:
    from rich.table import Column

    from cloud.cli.feedback_words import cloud_text, edge_text, person_text

    columns: dict[str, Callable[[FeedbackSample], object]] = {
        "device": lambda one: one.device, "site": lambda one: one.site,
        "sample": lambda one: one.id, "received": lambda one: moment(one.received_at),
        "reason": lambda one: one.reason, "version": lambda one: one.edge_version,
        "edge": lambda one: edge_text(one, names), "cloud": lambda one: cloud_text(one, names),
        "person": lambda one: person_text(one, names),
    }  # fmt: skip
    if out.width < _WIDE_COLUMNS:
        columns = {name: of for name, of in columns.items() if name not in _WIDE_ONLY}
    heads = [Column("sample", no_wrap=True, min_width=_ID_WIDTH) if name == "sample" else name
             for name in columns]  # fmt: skip
    grid(out, "Samples", heads, ([of(one) for of in columns.values()] for one in samples))


def _draw(out: "Console", sample: "FeedbackSample", names: "Names") -> None:
    from cloud.cli.feedback_words import cloud_text, edge_text, name_of
    from cloud.cli.rollout_words import percent

    counts = f"{name_of(sample.label, names)}, by {sample.label_source}"
    facts(
        out, f"{sample.device} {sample.id}",
        [
            ("counts as", "nothing: people differ" if sample.contradicted else counts),
            ("edge", f"{edge_text(sample, names)} ({sample.edge_model} {sample.edge_version})"),
            ("cloud", f"{cloud_text(sample, names)} ({sample.cloud_model} {sample.cloud_version})"),
            ("reason", f"{sample.reason}, of such {percent(sample.share)} are sent"),
            ("site", sample.site or None),
            ("captured", f"{moment(sample.captured_at)} by the device's clock"),
            ("received", moment(sample.received_at)),
            ("tensor", f"{sample.dtype}{list(sample.shape)}, {size(sample.bytes)}"),
        ],
    )  # fmt: skip
    if sample.labels:
        rows = (
            (name_of(one.label, names), one.by, moment(one.at), one.comment)
            for one in sample.labels
        )  # fmt: skip
        grid(out, "People say", ("label", "by", "at", "comment"), rows)
