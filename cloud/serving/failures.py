"""Why a request got no answer from its model, in the five kinds that decide what happens next. Pure."""

from typing import Literal

from shared.errors import DeadlineMissed, Disconnected, Overloaded, Refused, Unavailable

Failure = Literal["fault", "overload", "deadline", "refused", "away"]
"""fault: of the model, its engine or this program. overload: others are in the way. deadline: no
time was left. refused: the caller must change something. away: this worker shuts down, or the model
is not in memory; another worker, or this one later, can answer."""


class Broken(Unavailable):
    """The model failed so often of late that it is left alone until `retry_after_s` from now."""


def failure_of(error: Exception) -> Failure:
    """What is not one of ours is a bug, so a fault: an engine says that it failed by `Unavailable`
    itself, or `Disconnected`; kinds of `Unavailable` made here say something of this process.
    """
    match error:
        case Refused():
            return "refused"
        case Overloaded():
            return "overload"
        case DeadlineMissed():
            return "deadline"
        case Broken() | Disconnected():
            return "fault"
        case Unavailable() if type(error) is not Unavailable:
            return "away"
        case _:
            return "fault"
