"""Reported state: what changed since it was last said, with rising numbers. Pure."""

from collections.abc import Iterable
from typing import assert_never

from shared.fleet.reported import ReportedInventory, ReportedModel, ReportedProfile, Section

Report = ReportedModel | ReportedProfile | ReportedInventory


class Reporting:
    """Of the three sections those that differ from what was last said."""

    def __init__(self, first: int) -> None:
        """`first`: the number of the first report; all numbers before belong to the past."""
        self.next = first
        self._said: dict[Section, Report] = {}

    def forget(self) -> None:
        """What was said may be lost: say all of it again."""
        self._said.clear()

    def due(self, drafts: Iterable[Report], now: float) -> list[tuple[Section, bytes]]:
        """`drafts` have no number and no time yet; `now` in Unix seconds."""
        out = list[tuple[Section, bytes]]()
        for draft in drafts:
            section = section_of(draft)
            if self._said.get(section) == draft:
                continue
            self._said[section] = draft
            said = draft.model_copy(update={"sequence": self.next, "at": now})
            self.next += 1
            out.append((section, said.to_bytes()))
        return out


def section_of(report: Report) -> Section:
    match report:
        case ReportedModel():
            return "model"
        case ReportedProfile():
            return "profile"
        case ReportedInventory():
            return "inventory"
        case _:
            assert_never(report)
