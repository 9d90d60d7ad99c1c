"""What happens to an update, and what is to be done about it. Pure values.

A generation belongs to one candidate; events and commands of an older one count for nothing.
"""

from dataclasses import dataclass

from edge.updates.release import Release
from edge.updates.target import Target


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
    patient: bool = False
    """What the fleet asks for may still come to this registry: not naming it is no failure yet."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """What the fleet asks for could not be looked for, for a long time."""

    why: str


@dataclass(frozen=True, slots=True)
class Followed:
    """The fleet wants this; None: nothing any more."""

    target: Target | None
    factory: Release | None = None
    """What the device was set up with, where that is known: an undo may go back to it."""


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
    golden: bool = False
    """Its golden samples were the reason."""


@dataclass(frozen=True, slots=True)
class Failed:
    """This device could not: it may work another time."""

    generation: int
    why: str


@dataclass(frozen=True, slots=True)
class Lasted:
    """It has run in shadow for a while: the agent's ends before are not its fault."""

    generation: int


@dataclass(frozen=True, slots=True)
class Restored:
    """The kept version that the fleet goes back to is open."""

    generation: int


@dataclass(frozen=True, slots=True)
class NotRestored:
    """It is damaged or does not open: what is fetched anew may."""

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

    factory: Release | None = None
    """As in `Followed`."""


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
    Started | Resumed | Offered | Unseen | Followed | Downloaded | Interrupted | Verified | Probed | Tried
    | Lasted | Restored | NotRestored | Rejected | Failed | SwapFailed | RolledBack | HoldReleased | RetryAsked | Proven | Stopped
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
class Stage:
    """Run it in shadow until the fleet says live; a trial of the same generation is the same run."""

    generation: int
    release: Release


@dataclass(frozen=True, slots=True)
class Restore:
    """Open a kept version."""

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


Labour = Fetch | Verify | Probe | Stage | Try | Restore
"""What takes a while; one at a time."""
Command = Labour | Activate | Prune | Report
