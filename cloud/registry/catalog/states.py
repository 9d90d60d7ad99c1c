"""Which state of a version leads where, as one table. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from cloud.registry.documents import State
from shared.errors import Conflict


class Event(StrEnum):
    """What happens to a version."""

    CLAIMED = "claimed"  # an evaluator took its evaluation up
    PASSED = "passed"
    FAILED = "failed"
    BROKEN = "broken"  # the evaluation came to no end: that says nothing about the version
    APPROVED = "approved"
    REJECTED = "rejected"
    RELEASED = "released"
    RETIRED = "retired"
    DELETED = "deleted"


_S, _E = State, Event
TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (_S.TRAINED, _E.CLAIMED): _S.EVALUATING,
    (_S.TRAINED, _E.BROKEN): _S.TRAINED,
    (_S.TRAINED, _E.REJECTED): _S.REJECTED,
    (_S.EVALUATING, _E.CLAIMED): _S.EVALUATING,  # the first evaluator died
    (_S.EVALUATING, _E.PASSED): _S.CANDIDATE,
    (_S.EVALUATING, _E.FAILED): _S.REJECTED,
    (_S.EVALUATING, _E.BROKEN): _S.TRAINED,
    (_S.EVALUATING, _E.REJECTED): _S.REJECTED,
    (_S.CANDIDATE, _E.CLAIMED): _S.CANDIDATE,  # measured again: the checklist goes by the newest
    (_S.CANDIDATE, _E.PASSED): _S.CANDIDATE,
    (_S.CANDIDATE, _E.FAILED): _S.CANDIDATE,
    (_S.CANDIDATE, _E.BROKEN): _S.CANDIDATE,
    (_S.CANDIDATE, _E.APPROVED): _S.CANDIDATE,
    (_S.CANDIDATE, _E.REJECTED): _S.REJECTED,
    (_S.CANDIDATE, _E.RELEASED): _S.RELEASED,
    (_S.RELEASED, _E.CLAIMED): _S.RELEASED,
    (_S.RELEASED, _E.PASSED): _S.RELEASED,
    (_S.RELEASED, _E.FAILED): _S.RELEASED,
    (_S.RELEASED, _E.BROKEN): _S.RELEASED,
    (_S.RELEASED, _E.RELEASED): _S.RELEASED,  # an older one becomes the current one again
    (_S.RELEASED, _E.RETIRED): _S.RETIRED,
    (_S.RETIRED, _E.DELETED): _S.RETIRED,
    (_S.REJECTED, _E.DELETED): _S.REJECTED,
}
"""What is not in it is refused."""

ENDS: Final = frozenset({State.RETIRED, State.REJECTED})
EVALUABLE: Final = frozenset(state for state, event in TRANSITIONS if event is Event.CLAIMED)


def after(state: State, event: Event, what: str = "the version") -> State:
    """Raises `Conflict`, with the states in which it could have happened."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        possible = " or ".join(sorted(s for s, e in TRANSITIONS if e is event))
        raise Conflict(f"{what} is {state}; only one that is {possible} can be {event}") from None
