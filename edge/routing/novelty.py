"""Inputs unlike the bundle's reference: seen on the device, by itself, whatever the model is sure of.

Pure: `now` comes from the caller, by `time.monotonic`. One input is novel that lies in a rare outermost bin of the
reference. The newest ones together have a score (`distance.py`), which moves the level (`standing.py`):

    calm      one input in `EVERY` is looked at, and the next one after a novel one
    watchful  each one is
    novel     so, bins that are less rare make an input novel, too, and audits are raised
"""

from collections import deque
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from edge.routing.distance import Distance
from edge.routing.rare import rare_cells, uncommon_cells
from edge.routing.settings import Budget, Novelty
from edge.routing.standing import Evidence, Level, Standing, moved
from edge.telemetry.sketching import Sketching

EVERY = 4
"""Inputs until one is looked at while all is calm: a look costs ten times as much as a count."""
_STEPS = 4  # of a window: how often it moves on
_ANSWERS_WINDOWS = 4  # a scene changes the mix of answers for minutes, so theirs is longer


@dataclass(frozen=True, slots=True)
class _Moment:
    at: float
    answers: int
    looked: int
    strays: int
    counted: list[int]
    """Before each cell of the sketching."""


@dataclass(frozen=True, slots=True)
class Seen:
    """For people."""

    level: Level
    score: float
    feature: str
    """Whose score it is; empty before the first window has gone by."""
    audit_share: float
    """In force."""
    raised_out: bool
    """Audits were raised for as long as they may be."""
    looked: int
    missing: int

    def fields(self) -> dict[str, str | float | bool]:
        score = round(self.score, 2) + 0.0  # of minus zero that makes zero
        return {
            "level": self.level, "score": score, "feature": self.feature,
            "audit_share": self.audit_share, "raised_out": self.raised_out,
            "looked": self.looked, "missing": self.missing,
        }  # fmt: skip


class NoveltyWatch:
    """Of one version."""

    __slots__ = (
        "_answers", "_budget", "_by_answer", "_by_input", "_moments", "_pause", "_plain", "_rare", "_settings",
        "_standing", "_strays", "_uncommon", "_until_look", "_until_step", "audit_share", "feature",
        "level", "score", "sketching",
    )  # fmt: skip

    def __init__(
        self,
        sketching: Sketching,
        settings: Novelty,
        budget: Budget,
        plain_share: float,
        now: float,
    ) -> None:
        """`plain_share`: of audits, while nothing is novel."""
        of_input = [feature for feature in sketching.features if feature.is_of_input]
        self.sketching = sketching
        self._rare, self._uncommon = rare_cells(of_input), uncommon_cells(of_input)
        self._by_input = [d for d in map(Distance, of_input) if d.says_something]
        confidences = [f for f in sketching.features if f.name == "confidence"]
        self._by_answer = [d for d in map(Distance, confidences) if d.says_something]
        self._until_look = self._pause = 1
        self._answers = self._strays = 0
        self.level: Level = "calm"
        self.audit_share = plain_share
        """In force."""
        self.score, self.feature = 0.0, ""
        self._standing = Standing()
        self.retune(settings, budget, plain_share, now)

    def retune(self, settings: Novelty, budget: Budget, plain_share: float, now: float) -> None:
        """Other settings from now on; what was counted stays, the window begins anew."""
        self._settings, self._budget, self._plain = settings, budget, plain_share
        self._moments = deque([self._moment(now)], maxlen=_STEPS * _ANSWERS_WINDOWS + 1)
        self._until_step = settings.window_looks // _STEPS
        self._stand(self._standing if settings.on else Standing())

    def said(self, label: int, confidence: float) -> bool:
        """Count one answer, of a confidence in 0..1; whether its input should be looked at."""
        self.sketching.said(label, confidence)
        self._until_look -= 1
        return not self._until_look

    def look(self, tensor: NDArray[np.uint8], now: float) -> bool:
        """Whether this input is novel. One with nothing in it is not: the cloud knows no more of it."""
        self._answers += self._pause
        cells = self.sketching.look(tensor)
        novel = False
        if self._settings.on:
            stray = not self._rare.isdisjoint(cells)
            self._strays += stray
            novel = stray or (self.level == "novel" and not self._uncommon.isdisjoint(cells))
            self._until_step -= 1
            if not self._until_step:
                self._until_step = self._settings.window_looks // _STEPS
                self._step(now, tensor.nbytes)
        self._until_look = self._pause = 1 if novel or self.level != "calm" else EVERY
        return novel

    def seen(self) -> Seen:
        return Seen(
            self.level, self.score, self.feature, self.audit_share, self.raised_out,
            self.sketching.looked, self.sketching.missing,
        )  # fmt: skip

    @property
    def raised_out(self) -> bool:
        """Audits were raised for as long as they may be."""
        return self._standing.raised_out

    @property
    def trouble(self) -> str:
        """What is wrong, in words; empty: nothing."""
        if not self.raised_out:
            return ""
        return (
            f"inputs were unlike the reference for {self._settings.raised_s_max:g} s "
            f"({self.feature}: {self.score:.1f}); audits are no longer raised: this device needs a "
            "model for what it sees now"
        )

    def _step(self, now: float, sample_bytes: int) -> None:
        moment, before = self._moment(now), self._moments[-1]
        began = self._moments[-min(_STEPS, len(self._moments))]
        self.score, self.feature = self._scored(began, moment)
        evidence = Evidence(
            score=self.score, strays=moment.strays - began.strays,
            window_looks=moment.looked - began.looked, looks=moment.looked - before.looked,
            elapsed_s=now - before.at, room=self._room(began, moment, sample_bytes),
        )  # fmt: skip
        self._moments.append(moment)
        standing = moved(self._standing, evidence, self._settings)
        if standing is not self._standing:
            self._stand(standing)

    def _stand(self, standing: Standing) -> None:
        self._standing, self.level = standing, standing.level
        self.audit_share = standing.audit_share(self._plain)

    def _scored(self, began: _Moment, moment: _Moment) -> tuple[float, str]:
        looks = self._settings.window_looks
        answers = looks * _ANSWERS_WINDOWS
        earlier = next(
            (m for m in reversed(self._moments) if moment.answers - m.answers >= answers),
            self._moments[0],
        )
        scores = [
            (one.between(since.counted, moment.counted, samples // 2), one.feature.name)
            for distances, since, samples in (
                (self._by_input, began, looks), (self._by_answer, earlier, answers),
            )
            for one in distances
        ]  # fmt: skip
        return max(scores, default=(0.0, ""))

    def _room(self, began: _Moment, moment: _Moment, sample_bytes: int) -> float:
        """The share of samples that may be sent, if nothing else is. A payload is at most as large
        as its sample.
        """
        rates = [
            rate / size
            for rate, size in (
                (self._budget.samples_per_s, 1), (self._budget.bytes_per_s, max(sample_bytes, 1)),
            )
            if rate is not None
        ]  # fmt: skip
        if not rates:
            return 1.0
        answers = max(moment.answers - began.answers, 1)
        return min(rates) * (moment.at - began.at) / answers

    def _moment(self, now: float) -> _Moment:
        sketching = self.sketching
        counted = list(accumulate(sketching.cells, initial=0))
        return _Moment(now, self._answers, sketching.looked, self._strays, counted)
