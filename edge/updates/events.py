"""What happens to an update, and what is to be done about it. Pure values.

A generation belongs to one candidate; events and commands of an older one count for nothing.
"""

from dataclasses import dataclass

from edge.updates.release import Release


@dataclass(frozen=True, slots=True)
class Started:
    """The agent started."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Nobody works for the candidate: a cut, or a disk that would not take the next state."""


@dataclass(frozen=True, slots=True)
class Offered:
    """Fresh trusted metadata names these releases."""

    releases: tuple[Release, ...]
    pin: str | None = None


@dataclass(frozen=True, slots=True)
class Downloaded:
    generation: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The network ended the download; what came stays, to go on from."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class Verified:
    generation: int


@dataclass(frozen=True, slots=True)
class Probed:
    """It passes on this hardware; `why` has the figures."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class Tried:
    """It passed its trial on live samples."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The candidate is at fault: do not try it again."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """This device could not: it may work another time."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class SwapFailed:
    """The agent would not take what is active now; `still` answers."""

    generation: int
    why: str
    still: Release


@dataclass(frozen=True, slots=True)
class RolledBack:
    """An operator went back to a kept version, which is open already."""

    release: Release


@dataclass(frozen=True, slots=True)
class HoldReleased:
    """An operator lets newer versions come again."""


@dataclass(frozen=True, slots=True)
class RetryAsked:
    """An operator wants what was refused to be tried again."""


@dataclass(frozen=True, slots=True)
class Proven:
    """The active version has run for a while."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The agent ends in good order: that start was no crash."""


Event = (
    Started | Resumed | Offered | Downloaded | Interrupted | Verified | Probed | Tried | Rejected | Failed
    | SwapFailed | RolledBack | HoldReleased | RetryAsked | Proven | Stopped
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fetch:
    generation: int
    release: Release


@dataclass(frozen=True, slots=True)
class Verify:
    generation: int
    release: Release


@dataclass(frozen=True, slots=True)
class Probe:
    generation: int
    release: Release


@dataclass(frozen=True, slots=True)
class Try:
    generation: int
    release: Release


@dataclass(frozen=True, slots=True)
class Activate:
    """Give the agent the slot of what is active now."""

    generation: int
    release: Release


@dataclass(frozen=True, slots=True)
class Prune:
    """Remove every folder that the state does not name; end work of older generations."""

    generation: int


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the registry what runs here."""

    generation: int


Command = Fetch | Verify | Probe | Try | Activate | Prune | Report
