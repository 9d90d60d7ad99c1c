"""Text to a criterion, or a refusal that says where and what instead. Pure.

    criterion = NAME ("<=" | ">=") bound
    bound     = NUMBER | "control" [("+" | "*") NUMBER]

Only `agreement` has a lower bound (`>=`). What each measures stands in `MEASURES`.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, NoReturn

from shared.errors import Malformed

Name = Literal[
    "install_failures", "golden_failures", "silent", "inference_failures", "p95_latency_ms",
    "escalation_rate", "disagreement", "confidence_shift", "accuracy_loss", "agreement",
]  # fmt: skip
Against = Literal["number", "plus", "times"]


@dataclass(frozen=True, slots=True)
class Measure:
    what: str
    stage: Literal["any", "live", "shadow"] = "live"
    """Where it has data, and is asked for."""
    control: bool = True
    """It may be compared with the control."""
    unit: str = ""
    most: float = 1.0
    """Larger bounds make no sense."""


MEASURES: Final[dict[str, Measure]] = {
    "install_failures": Measure(
        "share of devices, of those whose install came to an end, that rejected it, failed, "
        "timed out or went back",
        "any", control=False,
    ),
    "golden_failures": Measure(
        "share of those devices whose golden samples failed", "any", control=False
    ),
    "silent": Measure("share of the devices that run it which are silent now", "any"),
    "inference_failures": Measure("share of inferences that raised or gave no number", "live"),
    "p95_latency_ms": Measure("95th percentile of the edge's latency", unit="ms", most=1e6),
    "escalation_rate": Measure("share of samples that were escalated"),
    "disagreement": Measure("share of audits whose cloud answer has another label"),
    "confidence_shift": Measure(
        "total variation distance between confidence by class and the control's", control=False
    ),
    "accuracy_loss": Measure(
        "accuracy of the active version less the candidate's, on the same samples, by the cloud's "
        "labels",
        "shadow", control=False,
    ),
    "agreement": Measure(
        "share of samples with the active version's label", "shadow", control=False
    ),
}  # fmt: skip

_BLANKS: Final = " \t\n\r\f\v"
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<mark>[<>=!]=|[-+*/<>=])|(?P<end>$))",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Criterion:
    text: str
    name: str
    """One of `MEASURES`."""
    against: Against
    number: float
    """The bound itself, what is added to the control's value, or what that is multiplied by."""

    @property
    def measure(self) -> Measure:
        return MEASURES[self.name]

    @property
    def relative(self) -> bool:
        return self.against != "number"

    def bound(self, control: float | None) -> float | None:
        """The bound where the control has this value; None: it needs one, and there is none."""
        if self.against == "number":
            return self.number
        if control is None:
            return None
        return control + self.number if self.against == "plus" else control * self.number


def parse(text: str) -> Criterion:
    """Raises `Malformed` with the position, from 1, and what to write instead."""
    return _Parser(text).criterion()


def parse_all(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Raises `Malformed`, also where two are about the same thing."""
    criteria = tuple(parse(text) for text in texts)
    seen: dict[str, str] = {}
    for one in criteria:
        if one.name in seen:
            raise Malformed(
                f"criteria {seen[one.name]!r} and {one.text!r} are both about {one.name}; keep one"
            )
        seen[one.name] = one.text
    return criteria


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def criterion(self) -> Criterion:
        name = self._name()
        self._compares(name)
        kind, word, at = self._next()
        against: Against = "number"
        number = 0.0
        if kind == "number":
            number = self._number(word, at)
        elif word == "control":
            against, number = self._of_control(name, at)
        else:
            self._refuse(at, f"a number or 'control' goes here, not {word or 'the end'!r}")
        self._ends()
        if against == "number" and number > MEASURES[name].most:
            self._refuse(at, f"{name} is at most {MEASURES[name].most:g}, so this never stops it")
        return Criterion(self._text.strip(), name, against, number)

    def _name(self) -> str:
        kind, word, at = self._next()
        if kind != "word":
            self._refuse(at, f"it begins with a name: {', '.join(MEASURES)}")
        if word not in MEASURES:
            near = get_close_matches(word, MEASURES, n=2, cutoff=0.5)
            ask = f"did you mean {' or '.join(map(repr, near))}?" if near else ""
            self._refuse(
                at, f"{word!r} is not measured; {ask or 'there is ' + ', '.join(MEASURES)}"
            )
        return word

    def _compares(self, name: str) -> None:
        _, word, at = self._next()
        wanted = ">=" if name == "agreement" else "<="
        if word != wanted:
            self._refuse(at, f"{name} is bounded by {wanted!r}, not {word or 'the end'!r}")

    def _of_control(self, name: str, at: int) -> tuple[Against, float]:
        if not MEASURES[name].control:
            self._refuse(at, f"{name} has no control to be compared with; write a number")
        kind, word, sign_at = self._next()
        if kind == "end":
            return "plus", 0.0
        if word not in ("+", "*"):
            self._refuse(sign_at, f"after control goes '+' or '*' and a number, not {word!r}")
        kind, number, number_at = self._next()
        if kind != "number":
            self._refuse(number_at, f"a number goes here, not {number or 'the end'!r}")
        value = self._number(number, number_at)
        if word == "*" and value < 1:
            self._refuse(number_at, "less than once the control's value: a good version would fail")
        return ("plus" if word == "+" else "times"), value

    def _number(self, word: str, at: int) -> float:
        value = float(word)
        if not math.isfinite(value) or value > 1e9:
            self._refuse(at, f"{word[:40]!r} is too large")
        return value

    def _ends(self) -> None:
        kind, word, at = self._next()
        if kind != "end":
            self._refuse(at, f"it should end here, not go on with {word!r}")

    def _next(self) -> tuple[str, str, int]:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            rest = self._text[self._at :]
            at = self._at + len(rest) - len(rest.lstrip(_BLANKS))
            self._refuse(at, f"{self._text[at]!r} means nothing here")
        self._at = found.end()
        return found.lastgroup, found.group(found.lastgroup), found.start(found.lastgroup)

    def _refuse(self, at: int, words: str) -> NoReturn:
        raise Malformed(f"criterion {self._text[:100]!r}, position {at + 1}: {words}")
