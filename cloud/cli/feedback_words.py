"""Samples, labels and times as people write and read them. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cloud.cli.rollout_words import percent, seconds
from cloud.cli.suggest import question
from cloud.feedback.documents import FeedbackSample, Source
from shared.errors import Malformed

_NAMES_SHOWN: Final = 30


def moment_of(text: str, what: str, now: float) -> float:
    """Unix seconds of `2026-05-04`, `2026-05-04T12:30Z`, or of so long ago: `2h`, `7d`.

    Raises `Malformed`, naming `what`. A time without a zone is UTC.
    """
    stripped = text.strip()
    try:
        at = datetime.fromisoformat(stripped)
    except ValueError:
        pass
    else:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    try:
        return now - seconds(stripped, what)
    except Malformed as error:
        raise Malformed(
            f"{what} {text[:40]!r}: write it as 2026-05-04, 2026-05-04T12:30Z, or so long ago as 2h"
        ) from error


def name_of(label: int, names: Sequence[str]) -> str:
    """Its number where it has no name."""
    return names[label] if 0 <= label < len(names) else str(label)


def label_of(text: str, names: Sequence[str]) -> int:
    """Of a number, a name, or the beginning of one name only. Raises `Malformed`."""
    wanted = text.strip()
    folded = wanted.casefold()
    if exact := [n for n, name in enumerate(names) if name.casefold() == folded]:
        return exact[0]
    if wanted.isascii() and wanted.isdigit():
        number = int(wanted)
        if number < (len(names) or 65_536):
            return number
        raise Malformed(
            f"label {wanted[:20]}: the model has {len(names)}, from 0 to {len(names) - 1}"
        )
    if not names:
        raise Malformed(
            f"label {wanted[:40]!r}: the labels' names are not known here: give its number, or "
            "--labels NAME,NAME,..., or --registry"
        )
    starting = [n for n, name in enumerate(names) if name.casefold().startswith(folded)]
    if len(starting) == 1 and folded:
        return starting[0]
    meant = question(wanted, names)
    if len(starting) > 1 and folded:
        meant = f"; it may be {' or '.join(names[n] for n in starting)}"
    raise Malformed(f"label {wanted[:40]!r}: there is none{meant or f'; {listed(names)}'}")


def listed(names: Sequence[str]) -> str:
    """As `0 t-shirt, 1 trouser`."""
    shown = ", ".join(f"{number} {name}" for number, name in enumerate(names[:_NAMES_SHOWN]))
    return shown + (", ..." if len(names) > _NAMES_SHOWN else "")


def edge_text(sample: FeedbackSample, names: Sequence[str]) -> str:
    return f"{name_of(sample.edge_label, names)} {percent(round(sample.edge_confidence, 3))}"


def cloud_text(sample: FeedbackSample, names: Sequence[str]) -> str:
    return f"{name_of(sample.cloud_label, names)} {percent(round(sample.cloud_confidence, 3))}"


def person_text(sample: FeedbackSample, names: Sequence[str]) -> str:
    """Empty: nobody has said. `shirt? dress?`: people differ."""
    if sample.contradicted:
        said = dict.fromkeys(name_of(one.label, names) for one in sample.labels)
        return " ".join(f"{name}?" for name in said)
    if sample.label_source is Source.PERSON:
        return name_of(sample.label, names)
    return ""
