"""Confident samples by the audit share that was in force: within one, audits are drawn evenly. Pure.

A tally counts samples and audits anyway, so a stratum is what they grew by while its share was in force:
nothing is counted twice, and a sample costs nothing here.
"""

from dataclasses import dataclass

from shared.fleet.telemetry import STRATA_MAX, Stratum


@dataclass(slots=True)
class _Row:
    share: float
    confident: int = 0
    audited: int = 0
    answered: int = 0
    disagreed: int = 0


class Strata:
    """`STRATA_MAX` rows at most; the last one takes all further shares."""

    __slots__ = ("_began", "_current", "_rows")

    def __init__(self, share: float) -> None:
        self._rows = [_Row(share)]
        self._current = self._rows[0]
        self._began = (0, 0)

    def change(self, share: float, confident: int, audited: int) -> None:
        """Another share from the next sample on; counts are the tally's so far."""
        self._close(confident, audited)
        self._current = self._row(share)

    def answered(self, share: float, *, differs: bool) -> None:
        """The cloud's answer to an audit that was drawn with this share."""
        row = self._row(share)
        row.answered += 1
        row.disagreed += differs

    def documents(self, confident: int, audited: int) -> tuple[Stratum, ...]:
        self._close(confident, audited)
        return tuple(
            Stratum(
                share=row.share, confident=row.confident, audited=row.audited,
                answered=row.answered, disagreed=row.disagreed,
            )
            for row in self._rows
        )  # fmt: skip

    def _close(self, confident: int, audited: int) -> None:
        self._current.confident += confident - self._began[0]
        self._current.audited += audited - self._began[1]
        self._began = (confident, audited)

    def _row(self, share: float) -> _Row:
        for row in self._rows:
            if row.share == share:
                return row
        if len(self._rows) < STRATA_MAX:
            self._rows.append(_Row(share))
        return self._rows[-1]
