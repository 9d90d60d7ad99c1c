"""What a person types while he goes through samples. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from cloud.cli.feedback_words import cloud_text, edge_text, label_of, listed, name_of
from cloud.feedback.documents import FeedbackSample
from cloud.registry.client.answers import plain
from shared.errors import Malformed


@dataclass(frozen=True, slots=True)
class Say:
    """It shows this."""

    label: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Nobody can tell, or not now."""


@dataclass(frozen=True, slots=True)
class Back:
    """To the one before, whose label was wrong."""


@dataclass(frozen=True, slots=True)
class Quit:
    """For now: what is labelled stays so."""


@dataclass(frozen=True, slots=True)
class Again:
    """It made no sense, or asked for help; these are the words."""

    words: str


Answer = Say | Skip | Back | Quit | Again


def answer_of(typed: str, sample: FeedbackSample, names: Sequence[str]) -> Answer:
    """Nothing typed: the cloud is right."""
    match typed.strip():
        case "":
            return Say(sample.cloud_label)
        case "." | "skip":
            return Skip()
        case "-" | "back":
            return Back()
        case ":q" | "quit":
            return Quit()
        case "?" | "help":
            return Again(help_text(names))
        case other:
            try:
                return Say(label_of(other, names))
            except Malformed as error:
                return Again(str(error))


def help_text(names: Sequence[str]) -> str:
    keys = "Enter: the cloud is right; . skips; - goes back; :q ends, what is labelled stays"
    return f"{keys}; or a label: {listed(names) or 'its number'}"


def question(sample: FeedbackSample, names: Sequence[str]) -> str:
    """As `cam-7 at lyon, edge: coat 55%, cloud: shirt 71%; it shows [shirt]? `."""
    where = f"{sample.device} at {sample.site}" if sample.site else sample.device
    said = f"edge: {edge_text(sample, names)}, cloud: {cloud_text(sample, names)}"
    return plain(f"{where}, {said}; it shows [{name_of(sample.cloud_label, names)}]?")
