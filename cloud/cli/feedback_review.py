"""`hybridge feedback review`: sample after sample at a terminal, until a person has enough."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cloud.cli import feedback_arguments as arguments
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, say, show
from cloud.cli.registry_session import Code, DryRun, Registry, ending

if TYPE_CHECKING:
    from cloud.cli.feedback_labels import Names
    from cloud.feedback.documents import FeedbackSample
    from cloud.learning.client.client import LearningClient

_PAGE: Final = 20
"""Images fetched at once: a person looks at the first while nothing is under way."""


def review(
    *,
    model: arguments.Model = None,
    version: arguments.ModelVersion = None,
    cloud_model: arguments.CloudModel = None,
    device: arguments.Device = None,
    site: arguments.Site = None,
    reason: arguments.WhyCame = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    unsure: arguments.Unsure = None,
    disputed: arguments.Disputed = False,
    holdout: arguments.Holdout = False,
    holdout_share: arguments.HoldoutShare = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 100,
    png: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write each image there instead of drawing it here."),
    ] = None,
    labels: arguments.Labels = None,
    registry: Registry = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Go through samples that no person has labelled, the newest first. Each label counts at once;
    started again, it goes on with what is left.

    Exit codes: 0 done, 1 refused, 2 wrong usage (as where there is no terminal), 3 the learning
    process cannot be reached, 130 stopped with Ctrl-C: what is labelled stays.
    """
    wanted = arguments.Wanted(
        model, version, device, site, reason, None, None, since, until, unsure, disputed,
        unlabelled=True, holdout=holdout, holdout_share=holdout_share,
        cloud_model=cloud_model,
    )  # fmt: skip
    with ending():
        query = wanted.query((), time.time())
    if dry_run:
        found = ask(learning, key_file, lambda asked: asked.feedback.samples(query, limit))
        tree = {"dry_run": True, "would": "review", "samples": len(found)}
        show(tree, output, lambda out: out.print(f"would ask about {len(found):,} samples"))
        return
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise typer.BadParameter(
            "a review asks at a terminal, and there is none: see hybridge feedback list, then "
            "hybridge feedback label DEVICE SAMPLE LABEL"
        )
    samples = ask(learning, key_file, lambda asked: asked.feedback.samples(query, limit))
    if not samples:
        say("there is nothing to review: people have labelled all of them")
        return
    from cloud.cli.feedback_labels import names_from

    newest = samples[0]
    with ending():
        names = names_from(labels, registry, key_file, newest.edge_model, newest.edge_version)
    done = _Review(learning, key_file, names, png)
    try:
        done.through(samples)
    except (KeyboardInterrupt, EOFError):
        sys.stderr.write("\n")
        raise typer.Exit(Code.STOPPED) from None
    finally:
        say(f"{done.labelled} labelled, {done.skipped} skipped; come back for the rest")
    tree = {"labelled": done.labelled, "skipped": done.skipped}
    if output is not Format.TABLE:
        show(tree, output, lambda _: None)


class _Review:
    """One sitting."""

    def __init__(
        self,
        learning: list[str] | None,
        key_file: Path | None,
        names: "Names",
        folder: Path | None,
    ) -> None:
        self._learning, self._key_file = learning, key_file
        self._names, self._folder = names, folder
        self.labelled = self.skipped = 0

    def through(self, samples: "list[FeedbackSample]") -> None:
        """Until they are gone through, or the person quits."""
        from cloud.cli.feedback_answers import help_text

        say(f"{len(samples)} samples. {help_text(self._names)}")
        images: dict[str, bytes | None] = {}
        at = 0
        while at < len(samples):
            if samples[at].id not in images:
                images = self._images(samples[at : at + _PAGE])
            step = self._one(samples[at], images[samples[at].id], f"{at + 1}/{len(samples)}")
            if step is None:
                return
            at = max(0, at + step)

    def _images(self, samples: "list[FeedbackSample]") -> "dict[str, bytes | None]":
        from shared.errors import Refused

        async def work(asked: "LearningClient") -> dict[str, bytes | None]:
            found: dict[str, bytes | None] = {}
            for one in samples:
                found[one.id] = None
                with contextlib.suppress(Refused):  # no image: its words are shown all the same
                    found[one.id] = await asked.feedback.image(one.device, one.id)
            return found

        return ask(self._learning, self._key_file, work)

    def _one(self, sample: "FeedbackSample", image: bytes | None, place: str) -> int | None:
        """How many samples to go on by; None: no further."""
        from cloud.cli.feedback_answers import Again, Back, Quit, Say, Skip, answer_of, question

        self._show(sample, image)
        while True:
            sys.stderr.write(f"{place} {question(sample, self._names)} ")
            sys.stderr.flush()
            typed = sys.stdin.readline()
            if not typed:
                raise EOFError
            match answer_of(typed, sample, self._names):
                case Say(label):
                    self._label(sample, label)
                    return 1
                case Skip():
                    self.skipped += 1
                    return 1
                case Back():
                    return -1
                case Quit():
                    return None
                case Again(words):
                    say(words)

    def _label(self, sample: "FeedbackSample", label: int) -> None:
        from cloud.cli.feedback_words import name_of

        found = ask(
            self._learning, self._key_file,
            lambda asked: asked.feedback.label(sample.device, sample.id, label),
        )  # fmt: skip
        self.labelled += 1
        if found.contradicted:
            say(f"{name_of(label, self._names)}, and others say something else: in no data set")

    def _show(self, sample: "FeedbackSample", image: bytes | None) -> None:
        from rich.console import Console

        from shared.disk import write_whole
        from shared.errors import Refused

        if image is None:
            say(f"{sample.dtype}{list(sample.shape)}: no image")
            return
        if self._folder is not None:
            path = self._folder / f"{sample.device}-{sample.id}.png"
            with ending():
                write_whole(path, image, durable=False)
            say(str(path))
            return
        from cloud.cli.feedback_image import draw

        try:
            draw(Console(stderr=True, markup=False, highlight=False), image)
        except Refused as error:
            say(str(error))
